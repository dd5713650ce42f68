package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// A change of a member may concern more reservations than one append can hold. So its command changes the
// member alone, and the next ticks change its reservations. A crash between two ticks loses nothing: a debt
// follows from the two records.

// atOnce is when a debt is due: before anything else.
const atOnce Time = 1

// debt is what a change of a member requires for one of its reservations.
type debt int

const (
	nothing debt = iota
	// end: a party was removed.
	end
	// signAgain: the hold names an old key of a party.
	signAgain
)

// debtOf returns what a change of its parties requires for a reservation. Only a broker has debts.
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

// queueDebts queues the debts that follow from a change of a member.
func (s *State) queueDebts(m, old *Member) {
	if s.Self != "" || removed(m) == removed(old) && (old == nil || m.Rekeyed == old.Rekeyed) {
		return
	}
	for _, r := range s.live(m.Cluster) {
		s.await(r.due, s.next(r))
	}
}

// checkRemoved reports why a removed member cannot join again yet, or nil: it must not get reservations from
// before.
func (s *State) checkRemoved(m *Member) error {
	if !removed(m) || !slices.ContainsFunc(s.live(m.Cluster), func(r *Reservation) bool { return s.debtOf(r) == end }) {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "cluster %s was removed, and its reservations are still being ended",
		m.Cluster).
		Fix("try again in a moment")
}

// partyChanged returns the error for a reservation that is about to end, or to be signed again.
func partyChanged(r *Reservation) error {
	return api.Errorf(api.CodeConflict, "a party to reservation %s was removed, or has another key now", r.ID).
		Fix("read the reservation again in a moment")
}

// payDebt carries out a debt. A hold does not move on from a removed member: one command must not place many.
func (s *State) payDebt(r *Reservation, what debt, now Time) Outcome {
	if what == signAgain { // this also sends the new card to the other party
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
