package market

import (
	"cmp"
	"maps"
	"slices"
)

// A gate restores what it accepted and its Ledger lost, by the signed documents. So it must know which
// reservations ended before the end in their documents. It keeps the newest ones by ID. For older ones it
// keeps, for each consumer, a time: what could be accepted until then is in the Ledger, or over.

// Spent is a forgotten reservation that this gate accepted, and whose documents could be shown until Until.
type Spent struct {
	ID    string `json:"id"`
	Until Time   `json:"until"`
	// AcceptBy is until when the newest of its assignments could be accepted. Older versions wrote
	// neither field.
	Consumer string `json:"consumer,omitempty"`
	AcceptBy Time   `json:"acceptBy,omitempty"`
}

// Passed says that nothing of a consumer is restored that could be accepted until AcceptBy. It is
// needed until Until.
type Passed struct {
	Consumer string `json:"consumer"`
	AcceptBy Time   `json:"acceptBy"`
	Until    Time   `json:"until"`
}

// maxSpent is how many are kept by ID. Beyond that, Passed replaces the older half.
const maxSpent = 1024

// Spent reports whether this gate accepted a reservation that is over and forgotten. acceptBy is
// until when the shown acceptance binds; 0: the gate signed none.
func (s *State) Spent(id, consumer string, acceptBy, now Time) bool {
	passed := s.passed[consumer]
	return now < s.spent[id].Until || acceptBy != 0 && acceptBy <= passed.AcceptBy && now < passed.Until
}

// spends returns what must be kept of a reservation that is forgotten; not ok: nothing.
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

// summarizeSpent returns what replaces the older half of s.spent if it is too long.
func (s *State) summarizeSpent() []Passed {
	known := slices.DeleteFunc(slices.Collect(maps.Values(s.spent)), func(spent Spent) bool {
		return spent.Consumer == ""
	})
	if len(known) < maxSpent {
		return nil
	}
	slices.SortFunc(known, func(a, b Spent) int {
		return cmp.Or(cmp.Compare(a.AcceptBy, b.AcceptBy), cmp.Compare(a.ID,
			b.ID))
	})
	all := map[string]Passed{}
	for _, spent := range known[:len(known)/2] {
		p, begun := all[spent.Consumer]
		if !begun {
			p = s.passed[spent.Consumer]
		}
		p.Consumer, p.AcceptBy, p.Until = spent.Consumer, max(p.AcceptBy, spent.AcceptBy), max(p.Until, spent.Until)
		all[spent.Consumer] = p
	}
	return byKey(all)
}

// spend adds to s.spent, and drops what can no longer be shown.
func (s *State) spend(all []Spent, now Time) {
	maps.DeleteFunc(s.spent, func(_ string, spent Spent) bool { return now >= spent.Until })
	for _, spent := range all {
		s.spent[spent.ID] = spent
	}
}

// replaceSpent replaces entries of s.spent, and drops what is no longer needed.
func (s *State) replaceSpent(all []Passed, now Time) {
	maps.DeleteFunc(s.passed, func(_ string, p Passed) bool { return now >= p.Until })
	for _, p := range all {
		s.passed[p.Consumer] = p
		maps.DeleteFunc(s.spent, func(_ string, spent Spent) bool {
			return spent.Consumer == p.Consumer &&
				spent.AcceptBy <= p.AcceptBy
		})
	}
}
