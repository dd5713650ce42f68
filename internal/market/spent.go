package market

import (
	"cmp"
	"maps"
	"slices"
)

// A gate takes back what it accepted and its Ledger does not have: the Ledger may have been put back to an older state. What is over
// must not come back by the same documents, as long as they say that it lasts. So the gate remembers what ended early: the last ones by
// ID and, of those before, for each consumer up to when its assignments could be accepted. All that the gate accepted until then is in
// its Ledger, or over.

// Spent is a reservation that this gate accepted, that is over and forgotten, and whose documents could be shown until Until.
type Spent struct {
	ID    string `json:"id"`
	Until Time   `json:"until"`
	// Consumer is whose it was, AcceptBy until when the newest of its assignments could be accepted. Older versions wrote neither.
	Consumer string `json:"consumer,omitempty"`
	AcceptBy Time   `json:"acceptBy,omitempty"`
}

// Passed says that of a consumer nothing is taken back that could be accepted until AcceptBy. After Until nobody needs to know.
type Passed struct {
	Consumer string `json:"consumer"`
	AcceptBy Time   `json:"acceptBy"`
	Until    Time   `json:"until"`
}

// maxSpent is how many are remembered by ID. Beyond it, those of the older half are remembered by Passed.
const maxSpent = 1024

// Spent says whether a reservation that this gate accepted is over, and its documents could still be shown, although it has forgotten
// the rest. acceptBy is until when the acceptance that is shown binds by itself; 0: none is shown that this gate signed.
func (s *State) Spent(id, consumer string, acceptBy, now Time) bool {
	passed := s.passed[consumer]
	return now < s.spent[id].Until || acceptBy != 0 && acceptBy <= passed.AcceptBy && now < passed.Until
}

// spends is what is to be remembered of a reservation that is forgotten; not ok: nothing.
func (s *State) spends(r *Reservation) (Spent, bool) {
	until := max(r.Until, r.Longest).plus(SkewGrace)
	if s.Self == "" || r.Provider != s.Self || r.Acceptance == "" || until <= r.Changed.plus(s.retention()) {
		return Spent{}, false
	}
	acceptBy := r.AcceptBy
	if acceptBy == 0 { // it was accepted before its last change
		acceptBy = r.Changed.plus(MaxApproval + DecideTime + 2*SkewGrace)
	}
	return Spent{r.ID, until, r.Consumer, acceptBy}, true
}

// passes is what takes the place of the older half of what is spent, where there is too much of it.
func (s *State) passes() (out []Passed) {
	known := slices.DeleteFunc(slices.Collect(maps.Values(s.spent)), func(one Spent) bool { return one.Consumer == "" })
	if len(known) < maxSpent {
		return nil
	}
	slices.SortFunc(known, func(a, b Spent) int { return cmp.Or(cmp.Compare(a.AcceptBy, b.AcceptBy), cmp.Compare(a.ID, b.ID)) })
	all := map[string]Passed{}
	for _, one := range known[:len(known)/2] {
		p, begun := all[one.Consumer]
		if !begun {
			p = s.passed[one.Consumer]
		}
		p.Consumer, p.AcceptBy, p.Until = one.Consumer, max(p.AcceptBy, one.AcceptBy), max(p.Until, one.Until)
		all[one.Consumer] = p
	}
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[consumer])
	}
	return out
}

// spend remembers what is spent, and forgets what can be shown no more.
func (s *State) spend(all []Spent, now Time) {
	maps.DeleteFunc(s.spent, func(_ string, one Spent) bool { return now >= one.Until })
	for _, one := range all {
		s.spent[one.ID] = one
	}
}

// pass remembers what has passed in the place of what is spent, and forgets what nobody needs to know any more.
func (s *State) pass(all []Passed, now Time) {
	maps.DeleteFunc(s.passed, func(_ string, p Passed) bool { return now >= p.Until })
	for _, p := range all {
		s.passed[p.Consumer] = p
		maps.DeleteFunc(s.spent, func(_ string, one Spent) bool { return one.Consumer == p.Consumer && one.AcceptBy <= p.AcceptBy })
	}
}

func (s *State) allSpent() []Spent {
	return slices.SortedFunc(maps.Values(s.spent), func(a, b Spent) int { return cmp.Compare(a.ID, b.ID) })
}

func (s *State) allPassed() []Passed {
	return slices.SortedFunc(maps.Values(s.passed), func(a, b Passed) int { return cmp.Compare(a.Consumer, b.Consumer) })
}
