package market

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Adopt takes a reservation into a broker's books that both parties signed and this broker does not know: it was made through
// another one, or by the connector of its provider, or was lost with a journal that was put back. Whether it fits is no question:
// it is bound. The signatures were verified.
// Errors: Conflict for one that is known otherwise, or over; NotMember and Suspended for its parties.
type Adopt struct {
	Assignment api.Assignment
	Size       Amounts
	// Document is the assignment's JWS, Acceptance the provider's answer to it; Offer the one that it is from, nil: from none.
	Document, Acceptance string
	Offer                *Offer
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
			return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is of others", a.Reservation)
		}
		return unchanged(old)
	}
	if now >= At(a.Until.Time) {
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is over", a.Reservation)
	}
	r := &Reservation{
		ID: a.Reservation, State: api.Reserved, Consumer: a.Consumer, Provider: a.Provider, Pool: a.Pool, Size: c.Size, Generation: a.Generation,
		Created: now, Until: At(a.Until.Time), Assignment: c.Document, Acceptance: c.Acceptance, Sale: a.Sale, Adopted: now,
	}
	if a.Sale != nil {
		r.Created, r.From = min(now, At(a.Begins.Time)), At(a.Begins.Time)
	}
	return s.keep(c.Offer, changed(r, now), now), nil
}

// Spent is what a gate remembers of a reservation that it accepted and that is over, as long as its documents could be shown again:
// they do not bring it back.
type Spent struct {
	ID    string `json:"id"`
	Until Time   `json:"until"`
}

// Spent says whether a reservation that this gate accepted is over, and its documents could still be shown, although it has forgotten the rest.
func (s *State) Spent(id string, now Time) bool { return now < s.spent[id] }

// spend remembers what is spent, and forgets what can be shown no more.
func (s *State) spend(all []Spent, now Time) {
	maps.DeleteFunc(s.spent, func(_ string, until Time) bool { return now >= until })
	for _, one := range all {
		s.spent[one.ID] = one.Until
	}
}

func (s *State) allSpent() []Spent {
	out := make([]Spent, 0, len(s.spent))
	for _, id := range slices.Sorted(maps.Keys(s.spent)) {
		out = append(out, Spent{id, s.spent[id]})
	}
	return out
}
