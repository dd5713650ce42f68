package match

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// Offered is an offer with its seller.
type Offered struct {
	*market.Listing
	*market.Offer
}

// Shown reports whether a member sees an offer: its own, or one that has not ended and whose audience, like
// that of the seller's terms, includes it. The offer may be sold out.
func (o Offered) Shown(to *api.Card, now market.Time) bool {
	return o.Cluster == to.Cluster || showsOffers(o.Listing, to) && o.offerShown(to, now)
}

// showsOffers reports whether a seller's terms show its offers to another member.
func showsOffers(l *market.Listing, to *api.Card) bool {
	return len(l.Offers) > 0 && l.Active() && l.Member.Card != nil && l.Measured != nil && Visible(l.Measured.Terms, to)
}

func (o Offered) offerShown(to *api.Card, now market.Time) bool {
	until := o.Signed.Offer.ValidUntil
	return (until == nil || now.Go().Before(until.Time)) && Among(&o.Signed.Offer.VisibleTo, to)
}

// Buy returns the ask and the sale of a purchase. The offer sets provider, pool and size. Errors:
// NotFound for an offer that the consumer does not see; Invalid, Conflict and Forbidden with the
// field.
func (e *Engine) Buy(v *market.View, consumer string, r api.Request, now market.Time) (Ask, *api.Sale, error) {
	b := *r.Purchase
	offered, err := find(v, consumer, b, now)
	if err != nil {
		return Ask{}, nil, err
	}
	d, err := durationOf(r)
	if err != nil {
		return Ask{}, nil, err
	}
	sale, plan, size, err := offered.Fulfils(r, now.Go(), d)
	if err != nil {
		return Ask{}, nil, err
	}
	if r.Target != "" && r.Target != b.Seller || r.Pool != "" && r.Pool != plan.Pool {
		return Ask{}, nil, api.Invalid("purchase", "it is of pool %s of %s, and the request names another", plan.Pool,
			b.Seller).
			Fix("leave target and pool out")
	}
	if r.Resources != nil {
		if asked, err := amounts.ParseRequest("resources", r.Resources); err != nil || !asked.Equal(size) {
			return Ask{}, nil, api.Invalid("resources", "they are not those of %d units of plan %s", sale.Units, plan.Name).
				Fix("leave resources out")
		}
	}
	r.Target, r.Pool, r.Resources = b.Seller, plan.Pool, size.Resources()
	ask, err := e.Ask(consumer, r)
	if err != nil {
		return Ask{}, nil, err
	}
	ask.dedicated = plan.Dedicated
	card := cardOf(v, consumer)
	if ok, err := e.Allows(offered.Signed.Offer.Accept, card, ask); err != nil || !ok {
		return Ask{}, nil, api.Errorf(api.CodeForbidden, "offer %s is not for this buyer, or not for this request",
			offered.Key()).At("purchase.offer").Fix("its `accept` must be true: see bourse catalog %s", offered.Key())
	}
	return ask, sale, nil
}

func find(v *market.View, consumer string, b api.Purchase, now market.Time) (Offered, error) {
	card := cardOf(v, consumer)
	if l := v.Listing(b.Seller); l != nil {
		for _, o := range l.Offers {
			if offered := (Offered{l, o}); o.Signed.Name == b.Offer && offered.Shown(&card, now) {
				return offered, nil
			}
		}
	}
	return Offered{}, api.Errorf(api.CodeNotFound, "no offer %.63s/%.63s that is shown to you", b.Seller, b.Offer).
		At("purchase.offer").FixBy("see", "bourse", "catalog")
}

func cardOf(v *market.View, cluster string) api.Card {
	if l := v.Listing(cluster); l != nil {
		return l.Card()
	}
	return api.Card{Cluster: cluster}
}
