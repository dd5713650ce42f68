package market

import "github.com/bourse-dev/bourse/api"

// Adds reports that events of a command make what the market must remember larger: something that it does not know yet, or what a
// reservation is to become. An agent whose Ledger has little space left refuses them. Ends, commits, frees and forgetting need space, too,
// and add nothing. Nor do what this gate had accepted before, and its admin's own word on a cluster.
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

// enlarged says whether a reservation is new, or has a change that it did not have.
func (s *State) enlarged(r *Reservation) bool {
	old := s.reservations[r.ID]
	return old == nil || r.Changing() != nil && old.Changing() == nil
}

// maxOfConsumer is how many reservations of one consumer a gate remembers, with those that have ended within the last hour: so that
// none of them takes the whole Ledger.
const maxOfConsumer = 5000

// checkRemembered reports why the gate cannot take one more reservation of a consumer, or nil.
func (s *State) checkRemembered(consumer string) error {
	if n := s.consumed(consumer).count; n[borrowed]+n[lent]+n[ended] < maxOfConsumer {
		return nil
	}
	return api.Errorf(api.CodeLedgerFull, "cluster %s remembers %d reservations of %s, with those that ended within the last %s, and takes no more", s.Self, maxOfConsumer, consumer, s.retention()).
		Fix("ask for fewer, larger ones, or wait until some have been forgotten")
}
