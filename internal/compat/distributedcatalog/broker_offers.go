package distributedcatalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
)

func (b *broker) offer(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	id := r.PathValue("id")
	listed, err := m.listed(r.Context(), id)
	if err != nil {
		return nil, err
	}
	l := find(listed, id)
	if l == nil {
		return nil, api.Errorf(api.CodeNotFound, "no offer %.80q that is shown to you", id).Fix("see: GET /catalog")
	}
	if l.Seller == m.cluster {
		return show(l.Seller, l.Name, &l.Offer, nil), nil
	}
	return showListing(l), nil
}

// listed are the offers that one of an ID can be among.
func (m *member) listed(ctx context.Context, id string) ([]api.Envelope[api.Listing], error) {
	query := api.CatalogQuery{}
	if seller, _, owned := strings.Cut(id, "_"); owned {
		if len(seller) > 63 {
			return nil, nil
		}
		query.Seller = seller
	} else if err := server.CountLarge(ctx); err != nil {
		return nil, err
	}
	return m.Catalog(ctx, query)
}

var done = map[string]string{"status": "OK"}

func (b *broker) putOffer(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	var offer Offer
	if err := readBody(w, r, &offer); err != nil {
		return nil, err
	}
	if id := r.PathValue("id"); offer.OfferID == "" {
		offer.OfferID = id
	} else if offer.OfferID != id {
		return nil, api.Invalid("offerID", "%.80q is not the offer of the path", offer.OfferID).Fix("say the same ID in both")
	}
	return done, m.publish(r.Context(), "", []Offer{offer})
}

func (b *broker) putOffers(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	var offers []Offer
	if err := readBody(w, r, &offers); err != nil {
		return nil, err
	}
	if offers == nil {
		return nil, api.Invalid("body", "it is no array of offers").Fix("send [] or [{...}, ...]")
	}
	if len(offers) > api.MaxOffers {
		return nil, api.Invalid("body", "%d offers", len(offers)).Fix("a seller has at most %d", api.MaxOffers)
	}
	return done, m.publish(r.Context(), "offers", offers)
}

// publish puts on sale what the caller's agent signed: by the document that comes with an offer, or
// because it is on sale already; and takes off sale what has status false. An offer that nobody
// signed is refused, as no gate would sell it. All are looked at before anything is changed.
func (m *member) publish(ctx context.Context, field string, offers []Offer) error {
	own, err := m.own(ctx)
	if err != nil {
		return err
	}
	var changes []func() error
	for i := range offers {
		change, err := m.change(ctx, &offers[i], find(own, offers[i].OfferID))
		if err != nil {
			return within(field, i, err)
		}
		if change != nil {
			changes = append(changes, change)
		}
	}
	for _, change := range changes {
		if err := change(); err != nil {
			return err
		}
	}
	return nil
}

// change is what an offer changes, nil if nothing; on is what is on sale by its ID, nil if nothing is.
func (m *member) change(ctx context.Context, o *Offer, on *api.Listing) (func() error, error) {
	var was *api.OfferSpec
	if on != nil {
		was = &on.Offer
	}
	if o.Document != "" {
		signed, err := m.server.SignedOffer(m.cluster, o.Document)
		if err != nil {
			return nil, err
		}
		name, offer, err := o.read(m.cluster, &signed.Signed.Offer)
		if err != nil {
			return nil, err
		}
		if name != signed.Signed.Name || !sameSale(&signed.Signed.Offer, &offer) {
			return nil, api.Invalid("document", "it is offer %s, and says something else", signed.Key()).
				Fix("send the document of what is said beside it")
		}
		return func() error { return m.PublishOffer(ctx, m.cluster, name, o.Document) }, nil
	}
	_, spec, err := o.read(m.cluster, was)
	switch {
	case err != nil:
		return nil, err
	case spec.Draft && on != nil:
		return func() error { return m.WithdrawOffer(ctx, m.cluster, on.Name) }, nil
	case spec.Draft, was != nil && sameSale(was, &spec):
		return nil, nil
	}
	return nil, api.Errorf(api.CodeConflict, "offer %.80s is not signed by %s's cluster key, so nobody could buy it",
		o.OfferID, m.cluster).At("document").
		Fix("post it at the agent of %s, which signs it and puts it on sale here: POST /api/offers there", m.cluster)
}

// sameSale reports whether two offers are the same for buyers. Time and wording do not count.
func sameSale(a, b *api.OfferSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, label := range []string{labelCreated, labelRAM} {
		delete(a.Labels, label)
		delete(b.Labels, label)
	}
	return equality.Semantic.DeepEqual(a, b)
}

func within(field string, i int, err error) error {
	wrong, ok := errors.AsType[*api.Error](err)
	if !ok || field == "" {
		return err
	}
	located := *wrong
	located.Field = strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", field, i, wrong.Field), ".")
	return &located
}

// deleteOffer takes an offer off sale. One that is not there is off sale already; another's is never touched.
func (b *broker) deleteOffer(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	id := r.PathValue("id")
	own, err := m.own(r.Context())
	if err != nil {
		return nil, err
	}
	if l := find(own, id); l != nil {
		return done, m.WithdrawOffer(r.Context(), m.cluster, l.Name)
	}
	listed, err := m.listed(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if l := find(listed, id); l != nil {
		return nil, api.Errorf(api.CodeForbidden, "cluster %s may not take offer %.80q of %s off sale",
			m.cluster, id, l.Seller).Fix("ask %s", l.Seller)
	}
	return done, nil
}

// deleteCluster takes all that the caller sells off sale, and ends its tokens. Its membership, by
// which what it bought and sold is bound, only the operator ends.
func (b *broker) deleteCluster(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	own, err := m.own(r.Context())
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		if err := m.WithdrawOffer(r.Context(), m.cluster, l.Payload.Name); err != nil {
			return nil, err
		}
	}
	b.sessions.end(m.cluster)
	return done, nil
}
