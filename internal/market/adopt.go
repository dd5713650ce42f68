package market

import (
	"math"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Adopt records, at a broker, a reservation that both parties signed and this broker does not know:
// it was made through another broker or a connector, or a restored journal lost it. Its signatures
// were verified. It is bound, so capacity is not checked. Beyond the consumer's caps it counts,
// with a message, and the consumer can hold nothing new. Errors: Conflict if it is over or known
// with other parties; NotMember and Suspended for its parties; Invalid for amounts that no cluster
// has; CapReached beyond twice the caps on number and bytes.
type Adopt struct {
	Assignment api.Assignment
	Size       amounts.List
	// Document is the assignment's JWS, Acceptance the provider's. Offer is the purchased one; nil:
	// no purchase.
	Document, Acceptance string
	Offer                *Offer
	// Caps bound every consumer.
	Caps Caps
}

func (c Adopt) decide(s *State, now Time) (Outcome, error) {
	a := c.Assignment
	for _, party := range []string{a.Consumer, a.Provider} {
		if err := s.active(party); err != nil {
			return Outcome{}, err
		}
	}
	if old := s.reservations[a.Reservation]; old != nil {
		if old.Consumer != a.Consumer || old.Provider != a.Provider {
			return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s belongs to other clusters", a.Reservation)
		}
		return unchanged(old)
	}
	if now >= At(a.Until.Time) {
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is over", a.Reservation)
	}
	r := assigned(a, c.Size, c.Document, c.Acceptance, now)
	if r.State, r.Adopted = api.Reserved, now; r.Sale != nil {
		r.Created = min(now, r.From)
	}
	if err := s.checkAdopted(r, c.Caps); err != nil {
		return Outcome{}, err
	}
	if err := s.checkCaps(r.Consumer, c.Caps, 1, r.Size); err != nil {
		r.Message = overCaps
	}
	return s.keepOffer(c.Offer, changed(r, now), now), nil
}

// assigned returns the reservation of a signed assignment.
func assigned(a api.Assignment, size amounts.List, document, acceptance string, now Time) *Reservation {
	r := &Reservation{
		ID: a.Reservation, Consumer: a.Consumer, Provider: a.Provider, Pool: a.Pool, Size: size,
		Generation: a.Generation, Created: now, Until: At(a.Until.Time),
		Assignment: document, Acceptance: acceptance,
		Sale: a.Sale, Relend: a.Relend, RelendKey: a.RelendKey,
	}
	if a.Sale != nil {
		r.From = At(a.Begins.Time)
	}
	return r
}

const (
	// overCaps is the message of an adopted reservation beyond its consumer's caps.
	overCaps = "it was agreed without this broker, and its consumer has more than the broker's caps allow"
	// hardCaps times the caps bound what a consumer has, with adopted reservations.
	hardCaps = 2
	maxCap   = math.MaxInt64 / hardCaps
	// maxProviderPools is how many pools one provider may have, with those that it no longer advertises.
	maxProviderPools = 4 * maxPools
)

// checkAdopted refuses what two members can have signed only to harm the market: sums must not overflow, and
// the number of pools and resources must stay small.
func (s *State) checkAdopted(r *Reservation, all Caps) error {
	caps, has := s.capsOf(r.Consumer, all)
	var reserved amounts.List
	if p := s.providers[r.Provider]; p != nil {
		if b := p.pools[r.Pool]; b != nil {
			reserved = b.reserved
		} else if len(p.pools) >= maxProviderPools {
			return api.Invalid("assignment.pool", "cluster %s has %d other pools", r.Provider, len(p.pools)).
				Fix("end what nobody needs in them")
		}
	}
	for _, has := range []amounts.List{has.size, reserved} {
		sum := has.Plus(r.Size)
		if len(sum) > maxTaken || slices.ContainsFunc(sum, func(x amounts.Amount) bool { return x.Value > amounts.Max }) {
			return api.Invalid("assignment.resources",
				"with what is reserved already that is more than any cluster has, or more than %d resources", maxTaken).
				Fix("end what nobody needs")
		}
	}
	if most := hardCaps * min(caps.Reservations, maxCap); most > 0 && has.count[borrowed] >= most {
		return reached(r.Consumer, "reservations", most, has.count[borrowed], 1)
	}
	caps.Bytes = hardCaps * min(all.Bytes, maxCap)
	return s.checkBytes(r.Consumer, caps, footprint(r))
}
