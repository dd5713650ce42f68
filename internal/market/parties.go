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
	return slices.DeleteFunc(s.with(cluster, after), func(r *Reservation) bool { return !r.Concerns(cluster) })
}

// Live returns the reservations of which a cluster is a party and that are not over, oldest change first.
func (s *State) Live(cluster string) []*Reservation {
	return slices.DeleteFunc(s.live(cluster), func(r *Reservation) bool { return !r.Concerns(cluster) })
}

// live returns the reservations in which a cluster takes part and that are not over, oldest change first.
func (s *State) live(cluster string) []*Reservation {
	p := s.parties[cluster]
	if p == nil {
		return nil
	}
	return s.since(&p.live, 0)
}

// with returns the reservations in which a cluster takes part and that changed after a revision, oldest change first.
func (s *State) with(cluster string, after uint64) []*Reservation {
	p := s.parties[cluster]
	if p == nil {
		return nil
	}
	return merged(merged(s.since(&p.live, after), s.since(&p.unheard, after)), merged(s.since(&p.ended, after), s.since(&p.provided, after)))
}

func merged(a, b []*Reservation) []*Reservation {
	if len(a) == 0 {
		return b
	} else if len(b) == 0 {
		return a
	}
	out := make([]*Reservation, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Revision < b[0].Revision {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// party is what a cluster takes part in, so that nobody has to look through all that is over to find what is not.
type party struct {
	live changes
	// ended is what is over of what it consumed, provided what is over of what it provided. unheard is what is over of what it consumed
	// and its provider may not know yet: see [State.unfreed].
	ended, unheard, provided changes
	// bytes is about how much memory those of ended take, unheardBytes those of unheard.
	bytes, unheardBytes int64
}

// weigh adds, or takes away, what a reservation that is over takes of its consumer's.
func (p *party) weigh(r *Reservation, sign int64) {
	if r.RememberUntil != 0 {
		p.unheardBytes += sign * r.Bytes
	} else {
		p.bytes += sign * r.Bytes
	}
}

// changes lists reservations in the order in which they last changed. An entry is void once its reservation has changed again or is gone.
// Void entries are dropped before there are more of them than of the others.
type changes struct {
	all      []change
	valid    int
	unsorted bool
}

type change struct {
	id       string
	revision uint64
}

// listsOf returns the lists in which a record belongs.
func (s *State) listsOf(r *Reservation) (out [2]*changes) {
	if c := s.party(r.Consumer); r.State.Over() && r.RememberUntil != 0 {
		out[0] = &c.unheard
	} else if r.State.Over() {
		out[0] = &c.ended
	} else {
		out[0] = &c.live
	}
	if r.Provider == "" || r.Provider == r.Consumer {
		return out
	}
	if p := s.party(r.Provider); r.State.Over() {
		out[1] = &p.provided
	} else {
		out[1] = &p.live
	}
	return out
}

func (s *State) party(cluster string) *party {
	p := s.parties[cluster]
	if p == nil {
		p = &party{}
		s.parties[cluster] = p
	}
	return p
}

// updateIndex moves a reservation from the lists of its old record to those of its new one. Either may be nil. The market has the new
// record already.
func (s *State) updateIndex(old, r *Reservation) {
	s.countPair(old, r)
	if old != nil {
		for _, list := range s.listsOf(old) {
			if list != nil {
				list.valid--
			}
		}
		if old.State.Over() {
			s.party(old.Consumer).weigh(old, -1)
		}
	}
	if r != nil {
		for _, list := range s.listsOf(r) {
			if list != nil {
				s.appendTo(list, r)
			}
		}
		if r.State.Over() {
			s.party(r.Consumer).weigh(r, 1)
		}
		s.crowd(r.Consumer)
	}
	if old != nil {
		for _, cluster := range []string{old.Consumer, old.Provider} {
			if p := s.parties[cluster]; p != nil && p.live.valid+p.ended.valid+p.unheard.valid+p.provided.valid == 0 {
				delete(s.parties, cluster)
			}
		}
	}
}

// pair is a consumer and a provider.
type pair struct{ consumer, provider string }

// boundPair returns between whom a record is bound and counts; the zero pair: it is not.
func (r *Reservation) boundPair() pair {
	if r == nil || r.Acceptance == "" || !r.State.Counts() {
		return pair{}
	}
	return pair{r.Consumer, r.Provider}
}

// countPair counts the reservations by which two clusters are bound.
func (s *State) countPair(old, r *Reservation) {
	was, is := old.boundPair(), r.boundPair()
	if was == is {
		return
	}
	if is != (pair{}) {
		s.pairs[is]++
	}
	if was != (pair{}) {
		if s.pairs[was]--; s.pairs[was] == 0 {
			delete(s.pairs, was)
		}
	}
}

// Deal reports whether a reservation binds a consumer and a provider and still counts.
func (s *State) Deal(consumer, provider string) bool { return s.pairs[pair{consumer, provider}] > 0 }

func (s *State) appendTo(list *changes, r *Reservation) {
	if n := len(list.all); n > 0 && list.all[n-1].revision > r.Revision {
		list.unsorted = true
	}
	if len(list.all) > 2*list.valid+64 {
		list.all = slices.DeleteFunc(list.all, s.void)
	}
	list.all = append(list.all, change{r.ID, r.Revision})
	list.valid++
}

func (s *State) void(c change) bool {
	r := s.reservations[c.id]
	return r == nil || r.Revision != c.revision
}

// since returns what is listed and changed after a revision, oldest change first.
func (s *State) since(list *changes, after uint64) []*Reservation {
	if list.unsorted { // a snapshot is in the order of IDs
		slices.SortFunc(list.all, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
		list.unsorted = false
	}
	from, _ := slices.BinarySearchFunc(list.all, after+1, func(c change, revision uint64) int { return cmp.Compare(c.revision, revision) })
	var out []*Reservation
	for _, c := range list.all[from:] {
		if r := s.reservations[c.id]; r != nil && r.Revision == c.revision {
			out = append(out, r)
		}
	}
	return out
}

// oldest returns what has been over for longest of what a cluster consumed, without what its provider may not know yet; or nil. Only a market that forgets it may call it.
func (s *State) oldest(cluster string) *Reservation {
	p := s.parties[cluster]
	if p == nil {
		return nil
	}
	if p.ended.unsorted {
		s.since(&p.ended, s.Revision)
	}
	for len(p.ended.all) > 0 {
		if c := p.ended.all[0]; !s.void(c) {
			return s.reservations[c.id]
		}
		p.ended.all = p.ended.all[1:]
	}
	return nil
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
