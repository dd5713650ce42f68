package market

import "github.com/bourse-dev/bourse/api"

// Adds reports whether the events of a command add a record, or a change to a reservation. An agent whose
// Ledger is nearly full refuses these. It never refuses ends, commits, what its gate accepted before, and its
// admin's commands.
func (s *State) Adds(c Command, events []Event) bool {
	switch c := c.(type) {
	case IfRevision:
		return s.Adds(c.Command, events)
	case Admit:
		if c.Adopt {
			return false
		}
	case Trust, Suspend:
		return false
	}
	for _, e := range events {
		switch {
		case e.Member != nil && s.members[e.Member.Cluster] == nil:
			return true
		case e.Token != nil && s.tokens[e.Token.ID] == nil:
			return true
		case e.Offer != nil && s.offers[e.Offer.Digest] == nil:
			return true
		case e.Reservation != nil && s.enlarged(e.Reservation.Reservation):
			return true
		}
	}
	return false
}

// enlarged reports whether a reservation is new, or has a new change.
func (s *State) enlarged(r *Reservation) bool {
	old := s.reservations[r.ID]
	return old == nil || r.Changing() != nil && old.Changing() == nil
}

// maxOfConsumer is how many reservations of one consumer a gate keeps, with those that ended within the last
// hour. So no consumer fills the Ledger.
const maxOfConsumer = 5000

// checkRemembered reports why the gate cannot take one more reservation of a consumer, or nil.
func (s *State) checkRemembered(consumer string) error {
	if n := s.consumed(consumer).count; n[borrowed]+n[lent]+n[ended] < maxOfConsumer {
		return nil
	}
	return api.Errorf(api.CodeLedgerFull,
		"cluster %s remembers %d reservations of %s, with those that ended within the last %s, and accepts no more",
		s.Self, maxOfConsumer, consumer, s.retention()).
		Fix("ask for fewer, larger ones, or wait until some have been forgotten")
}
