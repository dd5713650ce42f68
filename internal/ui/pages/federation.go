package pages

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

// Federation is what the operator of a broker sees.
type Federation struct {
	State   api.BrokerState
	Members []api.Envelope[api.Member]
	Tokens  []api.Envelope[api.Token]
	// Waiting are the requests that wait for capacity.
	Waiting []api.Envelope[api.Reservation]
	// Borrows and Lends count the reservations that have capacity, by their consumer and by their provider.
	Borrows, Lends map[string]int
	Failed         *api.Error // why the broker does not say one of these
	// NoState, NoMembers, NoTokens and NoWaiting say that these are on their way.
	NoState, NoMembers, NoTokens, NoWaiting *api.Error

	Trade   Trade
	NoTrade *api.Error // why it is not known what members share
}

// Trade is what the members of a federation share. There may be 10,000 of them.
type Trade struct {
	standings     map[string]standingOf
	pools         map[string]sumOfPool
	overcommitted int
}

// standingOf is how a member kept its word, as [api.Cluster] has it.
type standingOf struct {
	uptime, honoured *int64
	overcommitted    bool
}

// sumOfPool is what all members share of a pool, and what of it is reserved.
type sumOfPool struct{ shared, reserved api.Resources }

// NewTrade returns the trade of no member.
func NewTrade() Trade {
	return Trade{standings: map[string]standingOf{}, pools: map[string]sumOfPool{}}
}

// Add adds members.
func (t *Trade) Add(some []api.Envelope[api.Cluster]) {
	for _, c := range some {
		p := c.Payload
		t.standings[strings.Clone(c.ID)] = standingOf{p.Uptime, p.Honoured, p.Overcommitted}
		if p.Overcommitted {
			t.overcommitted++
		}
		for name, a := range p.Pools {
			if _, has := t.pools[name]; !has {
				t.pools[strings.Clone(name)] = sumOfPool{api.Resources{}, api.Resources{}}
			}
			add(t.pools[name].shared, a.Shared)
			add(t.pools[name].reserved, a.Reserved)
		}
	}
}

// poolPart is how much of a resource of a pool is reserved.
type poolPart struct {
	Pool, Label     string
	Reserved, Whole float64
	Text            string
}

// parts returns how much of what all members share is reserved, by pool and resource.
func (t Trade) parts() (out []poolPart) {
	for _, pool := range slices.Sorted(maps.Keys(t.pools)) {
		sum := t.pools[pool]
		for _, name := range names(sum.shared, sum.reserved) {
			reserved, shared := sum.reserved[name], sum.shared[name]
			out = append(out, poolPart{pool, resourceLabel(string(name)), reserved.AsApproximateFloat64(), shared.AsApproximateFloat64(),
				Amount(string(name), reserved) + " of " + Amount(string(name), shared) + " reserved"})
		}
	}
	return out
}

// CapsText says what a member's own bounds are.
func CapsText(c *api.Caps) string { return cmp.Or(explain.Caps(c), "the bounds of every member") }

// Count counts the reservations that wait, and those that have capacity by their members.
func (f *Federation) Count(all []api.Envelope[api.Reservation]) {
	f.Borrows, f.Lends = map[string]int{}, map[string]int{}
	for _, r := range all {
		switch r.Payload.State {
		case api.Pending:
			f.Waiting = append(f.Waiting, r)
		case api.Held, api.Reserved, api.Active, api.Releasing:
			f.Borrows[r.Payload.Consumer]++
			f.Lends[r.Payload.Provider]++
		}
	}
}

// capped returns the resources that the form for the bounds of a member has.
func capped(c *api.Caps) []ResourceName {
	return names(api.Resources{"cpu": {}, "memory": {}}, ptr.Deref(c, api.Caps{}).Resources)
}

// capOf returns the bound of a resource as the form has it; empty: the bound for every member.
func capOf(c *api.Caps, name ResourceName) string {
	if q, has := ptr.Deref(c, api.Caps{}).Resources[name]; has {
		return q.String()
	}
	return ""
}

// boundText is a bound as the form has it; empty: the bound for every member.
func boundText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// waiting returns the requests that wait for capacity, the longest first.
func (f Federation) waiting() []api.Envelope[api.Reservation] {
	since := func(r api.Envelope[api.Reservation]) time.Time {
		if r.Payload.Waiting == nil {
			return time.Time{}
		}
		return r.Payload.Waiting.Since.Time
	}
	return slices.SortedStableFunc(slices.Values(f.Waiting), func(a, b api.Envelope[api.Reservation]) int {
		return since(a).Compare(since(b))
	})
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
