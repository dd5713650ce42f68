package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// One command about a member may concern all of its reservations, of which there may be more than one append to a journal holds.
// Such a command changes the member alone. What follows for each reservation is compared with the member's record whenever either
// changes, and is done by the next ticks, a piece in each append. A journal that ends between two pieces owes the rest: the ticks
// after the next start do it.

// atOnce is when a debt is due: before all that time brings.
const atOnce Time = 1

// debt is what a change of a member has left to be done to one of its reservations.
type debt int

const (
	nothing debt = iota
	// end: a party was removed.
	end
	// signAgain: a party has another key than the one that the hold names.
	signAgain
)

// debtOf returns what must still be done to a reservation because its parties changed. Only a broker has debts.
func (s *State) debtOf(r *Reservation) debt {
	if s.Self != "" || r.State.Over() {
		return nothing
	}
	consumer, provider := s.members[r.Consumer], s.members[r.Provider]
	switch {
	case removed(provider), removed(consumer) && r.State != api.Releasing:
		return end
	case r.State == api.Held && (consumer.rekeyedSince(r) || provider.rekeyedSince(r)):
		return signAgain
	}
	return nothing
}

func removed(m *Member) bool { return m != nil && m.State == api.MemberRemoved }

func (m *Member) rekeyedSince(r *Reservation) bool { return m != nil && r.Revision <= m.Rekeyed }

// queueDebts queues what a change of a member requires for its reservations. Entries that are queued already keep their place.
func (s *State) queueDebts(m, old *Member) {
	if s.Self != "" || removed(m) == removed(old) && (old == nil || m.Rekeyed == old.Rekeyed) {
		return
	}
	for _, r := range s.live(m.Cluster) {
		s.await(r.due, s.next(r))
	}
}

// checkRemoved reports why a removed member cannot come back yet, or nil. A new member of that name must not get the old one's
// reservations.
func (s *State) checkRemoved(m *Member) error {
	if !removed(m) || !slices.ContainsFunc(s.live(m.Cluster), func(r *Reservation) bool { return s.debtOf(r) == end }) {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "cluster %s was removed, and its reservations are still being ended", m.Cluster).Fix("try again in a moment")
}

// partyChanged refuses to bind a reservation that is about to end, or to be signed again.
func partyChanged(r *Reservation) error {
	return api.Errorf(api.CodeConflict, "a party to reservation %s was removed, or has another key now", r.ID).Fix("read the reservation again in a moment")
}

// payDebt does what debtOf returned. A hold does not move on from a removed member: one command must not place several.
func (s *State) payDebt(r *Reservation, what debt, now Time) Outcome {
	if what == signAgain { // it is news, too, which brings the new card to the other party
		s.placeHold(r, r.Provider, r.Next, now)
		return changed(r, now)
	}
	byProvider := removed(s.members[r.Provider])
	switch {
	case r.State == api.Pending, r.State == api.Held && (byProvider || r.Assignment == ""):
		return over(r, api.Failed, api.ReasonMemberRemoved, "", now)
	case byProvider:
		return over(r, api.Released, api.ReasonMemberRemoved, "", now)
	}
	r.State, r.Reason, r.Message, r.Next = api.Releasing, api.ReasonMemberRemoved, "", nil
	return changed(r, now)
}
