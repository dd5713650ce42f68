package market

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Parties are the clusters that a reservation concerns: the consumer and, once there
// is a signed assignment for it, the provider.
func (r *Reservation) Parties() []string {
	if r.Provider == "" || r.Assignment == "" || r.Provider == r.Consumer {
		return []string{r.Consumer}
	}
	return []string{r.Consumer, r.Provider}
}

// Concerns says whether a cluster is a party.
func (r *Reservation) Concerns(cluster string) bool { return slices.Contains(r.Parties(), cluster) }

// Of returns the reservations of which a cluster is a party and that changed after a
// revision, oldest change first.
func (s *State) Of(cluster string, after uint64) []*Reservation {
	return slices.DeleteFunc(s.with(cluster), func(r *Reservation) bool { return r.Revision <= after || !r.Concerns(cluster) })
}

// with returns the reservations in which a cluster takes part, or did, oldest change first.
func (s *State) with(cluster string) []*Reservation {
	var out []*Reservation
	for _, id := range s.byParty[cluster] {
		if r := s.reservations[id]; r != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Reservation) int { return cmp.Compare(a.Revision, b.Revision) })
	return slices.Compact(out) // an ID that was forgotten and came back is there twice
}

// index keeps, per cluster, the reservations that may concern it. What was forgotten stays, until there
// is more of it than of the others.
func (s *State) index(r, old *Reservation) {
	if old == nil || old.Consumer != r.Consumer {
		s.byParty[r.Consumer] = append(s.byParty[r.Consumer], r.ID)
	}
	if r.Provider != "" && (old == nil || old.Provider != r.Provider) {
		s.byParty[r.Provider] = append(s.byParty[r.Provider], r.ID)
	}
}

func (s *State) unindex() {
	if s.forgotten++; s.forgotten < 1024+len(s.reservations) {
		return
	}
	s.forgotten = 0
	clear(s.byParty)
	for _, r := range s.reservations {
		s.index(r, nil)
	}
}

// Members returns the records, by cluster.
func (s *State) Members() []*Member {
	out := slices.Collect(maps.Values(s.members))
	slices.SortFunc(out, func(a, b *Member) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// Tokens returns the join tokens, by ID.
func (s *State) Tokens() []*Token {
	out := slices.Collect(maps.Values(s.tokens))
	slices.SortFunc(out, func(a, b *Token) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Why returns the explanation of a reservation, or nil: of one that waits that of its last try.
func (s *State) Why(id string) Why {
	if last := s.tries[id]; last != nil {
		return last
	}
	if r := s.Reservation(id); r != nil {
		return r.Why
	}
	return nil
}

// Len is the number of records.
func (s *State) Len() int { return len(s.members) + len(s.tokens) + len(s.reservations) }

// Count counts the reservations by state.
func (s *State) Count() map[api.State]int {
	out := maps.Clone(s.counts)
	maps.DeleteFunc(out, func(_ api.State, n int) bool { return n == 0 })
	return out
}

// All returns every reservation, by ID.
func (s *State) All() []*Reservation {
	out := make([]*Reservation, 0, len(s.reservations))
	for _, id := range s.sortedIDs() {
		out = append(out, s.reservations[id])
	}
	return out
}
