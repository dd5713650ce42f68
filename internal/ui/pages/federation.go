package pages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Federation is what the operator of a broker sees.
type Federation struct {
	State   api.BrokerState
	Members []api.Envelope[api.Member]
	Tokens  []api.Envelope[api.Token]
	// Waiting are the requests that wait for capacity, the longest first.
	Waiting []api.Envelope[api.Reservation]
	Failed  *api.Error
}

// members returns those that match what the query says. Who waits for an operator comes first.
func (f Federation) members(v View) []api.Envelope[api.Member] {
	text, state := strings.ToLower(v.Query.Get("q")), v.Query.Get("state")
	out := slices.DeleteFunc(slices.Clone(f.Members), func(m api.Envelope[api.Member]) bool {
		return state != "" && string(m.Payload.State) != state || !strings.Contains(strings.ToLower(m.ID), text)
	})
	rank := func(m api.Envelope[api.Member]) int {
		switch {
		case m.Payload.State == api.MemberPending:
			return 0
		case m.Payload.State == api.MemberActive && !m.Payload.Fresh:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(a, b api.Envelope[api.Member]) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// member returns a member by its ID; nil if there is none.
func (f Federation) member(id string) *api.Envelope[api.Member] {
	i := slices.IndexFunc(f.Members, func(m api.Envelope[api.Member]) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Members[i]
}

// memberState returns how a member is shown.
func memberState(m api.Member) (Tone, string) {
	switch {
	case m.State == api.MemberPending:
		return Wait, "Waits for you"
	case m.State == api.MemberActive && !m.Fresh:
		return Warn, "Silent"
	case m.State == api.MemberActive:
		return OK, "Active"
	case m.State == api.MemberSuspended:
		return Warn, string(m.State)
	}
	return Off, string(m.State)
}

// step is what an operator can do with a member.
type step struct {
	Name, Label string
	Danger      bool
	Text        string // what it does
}

// steps returns what an operator can do with a member in its state.
func steps(m api.Member) []step {
	suspend := step{"suspend", "Suspend", false, "Other members do not see it, and it makes no new reservations. What is reserved goes on."}
	revoke := step{"revoke", "Revoke", true,
		"The broker refuses its certificate for good. It can join again only after you remove it."}
	remove := step{"remove", "Remove", true, "Its reservations end, on both sides. Do this only if it never comes back."}
	switch m.State {
	case api.MemberPending:
		return []step{{"approve", "Approve", false,
			"Compare the fingerprint with what the cluster's admin reads: bourse agent fingerprint."}, revoke}
	case api.MemberActive:
		return []step{suspend, revoke, remove}
	case api.MemberSuspended:
		return []step{{"resume", "Resume", false, "Its suspension ends."}, revoke, remove}
	case api.MemberRevoked:
		return []step{remove}
	}
	return nil
}

// panelStep returns the member and the step of the panel that is open; nil: none is.
func (f Federation) panelStep(v View) (*api.Envelope[api.Member], *step) {
	m := f.member(cmp.Or(v.Query.Get("id"), v.Typed.Get("id")))
	if m == nil {
		return nil, nil
	}
	all := steps(m.Payload)
	i := slices.IndexFunc(all, func(s step) bool { return s.Name == v.Panel() })
	if i < 0 {
		return m, nil
	}
	return m, &all[i]
}
