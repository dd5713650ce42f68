package market

import (
	"cmp"
	"maps"
	"slices"

	"github.com/google/btree"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Parties returns the consumer and, once the consumer has signed an assignment for it, the provider.
func (r *Reservation) Parties() []string {
	if r.Provider == "" || r.Assignment == "" || r.Provider == r.Consumer {
		return []string{r.Consumer}
	}
	return []string{r.Consumer, r.Provider}
}

// Concerns reports whether a cluster is a party.
func (r *Reservation) Concerns(cluster string) bool { return slices.Contains(r.Parties(), cluster) }

// Of returns the reservations with a cluster as a party that changed after a revision, oldest change
// first.
func (s *State) Of(cluster string, after uint64) []*Reservation {
	all := s.listed(cluster, after, borrowed, lent, ended, unheard, provided)
	return slices.DeleteFunc(all, func(r *Reservation) bool { return !r.Concerns(cluster) })
}

// Live returns the reservations with a cluster as a party that are not over, oldest change first.
func (s *State) Live(cluster string) []*Reservation {
	return slices.DeleteFunc(s.live(cluster), func(r *Reservation) bool { return !r.Concerns(cluster) })
}

// live returns the reservations that name a cluster and are not over, oldest change first.
func (s *State) live(cluster string) []*Reservation { return s.listed(cluster, 0, borrowed, lent) }

// list is one of the lists of a party.
type list uint8

const (
	borrowed list = iota // it consumes them, and they are not over
	lent                 // it provides them, and they are not over
	ended                // it consumed them, and they are over
	unheard              // the same, but the provider may not know yet: see [State.unfreed]
	provided             // it provided them, and they are over
	lists                // how many lists there are
)

// entry is a record in a list. Lists are in the order in which records last changed.
type entry struct {
	list     list
	revision uint64
	record   *Reservation
}

func (a entry) before(b entry) bool {
	return a.list < b.list || a.list == b.list && a.revision < b.revision
}

// party indexes the records that name a cluster, and counts the ones that it consumes.
type party struct {
	index *btree.BTreeG[entry]
	// count is the number of records in each list, bytes about how much memory they take.
	count, bytes [lists]int64
	// pending is how many of borrowed wait for capacity, size what all of borrowed take.
	pending int64
	size    amounts.List
}

const indexDegree = 16

// indexNodes are nodes of indexes that are free to be used again.
var indexNodes = btree.NewFreeListG[entry](1024)

func (s *State) party(cluster string) *party {
	p := s.parties[cluster]
	if p == nil {
		p = &party{index: btree.NewWithFreeListG(indexDegree, entry.before, indexNodes)}
		s.parties[cluster] = p
	}
	return p
}

// consumed returns the account of a consumer to read from. It is empty for one without records.
func (s *State) consumed(consumer string) *party {
	if p := s.parties[consumer]; p != nil {
		return p
	}
	return &party{}
}

// updateIndex replaces the old record of a reservation by the new one in the accounts of its parties. Either
// may be nil.
func (s *State) updateIndex(old, r *Reservation) {
	s.countPair(old, r)
	s.updateObject(old, -1)
	s.updateObject(r, 1)
	s.indexRecord(r, 1)
	s.indexRecord(old, -1)
}

// indexRecord adds a record to the accounts of its parties (sign 1), or removes it (-1). r may be
// nil.
func (s *State) indexRecord(r *Reservation, sign int64) {
	if r == nil {
		return
	}
	consumed, supplied := r.lists()
	s.updateList(r.Consumer, consumed, r, sign)
	if r.Provider != "" && r.Provider != r.Consumer {
		s.updateList(r.Provider, supplied, r, sign)
	}
}

// lists returns the list of the consumer and the list of the provider in which the record belongs.
func (r *Reservation) lists() (consumed, supplied list) {
	switch {
	case !r.State.Over():
		return borrowed, lent
	case r.RememberUntil != 0:
		return unheard, provided
	}
	return ended, provided
}

// updateList adds a record to a list of a cluster (sign 1), or removes it (-1). A cluster without
// records has no account.
func (s *State) updateList(cluster string, l list, r *Reservation, sign int64) {
	p := s.party(cluster)
	if sign > 0 {
		p.index.ReplaceOrInsert(entry{l, r.Revision, r})
	} else {
		p.index.Delete(entry{l, r.Revision, r})
	}
	p.count[l] += sign
	p.bytes[l] += sign * r.Bytes
	if r.State == api.Pending {
		p.pending += sign
	}
	switch {
	case l == borrowed && sign > 0:
		p.size = p.size.Swap(nil, r.Usage())
	case l == borrowed:
		p.size = p.size.Swap(r.Usage(), nil)
	}
	if p.index.Len() == 0 {
		delete(s.parties, cluster)
	}
}

// objectName names an object of the cluster, of any UID.
type objectName struct{ namespace, name string }

// updateObject adds a record to those of the object that made it (sign 1), or removes it (-1). r may be nil.
func (s *State) updateObject(r *Reservation, sign int) {
	if r == nil || r.Object == nil {
		return
	}
	name := objectName{r.Object.Namespace, r.Object.Name}
	switch made := s.made[name]; {
	case sign > 0 && made == nil:
		s.made[name] = map[string]*Reservation{r.ID: r}
	case sign > 0:
		made[r.ID] = r
	default:
		if delete(made, r.ID); len(made) == 0 {
			delete(s.made, name)
		}
	}
}

// Made returns the reservations that objects of a name made, of any UID, oldest change first.
func (s *State) Made(namespace, name string) []*Reservation {
	return slices.SortedFunc(maps.Values(s.made[objectName{namespace, name}]),
		func(a, b *Reservation) int { return cmp.Compare(a.Revision, b.Revision) })
}

// listed returns the records in lists of a cluster that changed after a revision, oldest change first.
func (s *State) listed(cluster string, after uint64, from ...list) (out []*Reservation) {
	p := s.parties[cluster]
	if p == nil {
		return nil
	}
	for _, l := range from {
		p.index.AscendRange(entry{list: l, revision: after + 1}, entry{list: l + 1}, func(e entry) bool {
			out = append(out, e.record)
			return true
		})
	}
	slices.SortFunc(out, func(a, b *Reservation) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}

// oldest returns the record of ended that changed first, or nil.
func (s *State) oldest(cluster string) (oldest *Reservation) {
	if p := s.parties[cluster]; p != nil {
		p.index.AscendRange(entry{list: ended}, entry{list: ended + 1}, func(e entry) bool {
			oldest = e.record
			return false
		})
	}
	return oldest
}

// pair is a consumer and a provider.
type pair struct{ consumer, provider string }

// boundPair returns the two clusters that a reservation binds while it counts. The zero pair: none.
func (r *Reservation) boundPair() pair {
	if r == nil || r.Acceptance == "" || !r.State.Counts() {
		return pair{}
	}
	return pair{r.Consumer, r.Provider}
}

// countPair counts the reservations that bind two clusters.
func (s *State) countPair(old, r *Reservation) {
	was, bound := old.boundPair(), r.boundPair()
	if was == bound {
		return
	}
	if bound != (pair{}) {
		s.pairs[bound]++
	}
	if was != (pair{}) {
		if s.pairs[was]--; s.pairs[was] == 0 {
			delete(s.pairs, was)
		}
	}
}

// HasDeal reports whether a reservation binds a consumer and a provider and still counts.
func (s *State) HasDeal(consumer, provider string) bool { return s.pairs[pair{consumer, provider}] > 0 }

// Members returns the records, by cluster.
func (s *State) Members() []*Member { return byKey(s.members) }

// Tokens returns the join tokens, by ID.
func (s *State) Tokens() []*Token { return byKey(s.tokens) }

// byKey returns the values of a map, in the order of their keys.
func byKey[T any](records map[string]T) []T {
	out := make([]T, 0, len(records))
	for _, key := range slices.Sorted(maps.Keys(records)) {
		out = append(out, records[key])
	}
	return out
}

// Why returns the explanation of a reservation, or nil. For a waiting one it is that of the last try.
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
func (s *State) All() []*Reservation { return byKey(s.reservations) }
