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
	var out []*Reservation
	for id := range s.byParty[cluster] {
		if r := s.reservations[id]; r.Revision > after && r.Concerns(cluster) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Reservation) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}

// index keeps, per cluster, the reservations that may concern it.
func (s *State) index(r *Reservation) {
	for _, party := range []string{r.Consumer, r.Provider} {
		if party != "" {
			if s.byParty[party] == nil {
				s.byParty[party] = map[string]struct{}{}
			}
			s.byParty[party][r.ID] = struct{}{}
		}
	}
}

func (s *State) unindex(r *Reservation) {
	parties := []string{r.Consumer, r.Provider}
	for _, t := range r.Tried {
		parties = append(parties, t.Provider)
	}
	for _, party := range parties {
		if delete(s.byParty[party], r.ID); len(s.byParty[party]) == 0 {
			delete(s.byParty, party)
		}
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

// Decision returns the kept explanation of a reservation, or nil.
func (s *State) Decision(id string) *api.Decision {
	if r := s.reservations[id]; r != nil {
		return r.Decision
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
