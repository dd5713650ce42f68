package market

import (
	"container/heap"

	"github.com/bourse-dev/bourse/api"
)

// due is when time alone may change a reservation. An entry whose reservation
// has moved on is ignored when its time comes.
type due struct {
	at Time
	id string
}

// dueQueue is a heap of what is due, soonest first; ties by ID, so that two
// machines expire in the same order.
type dueQueue []due

func (q dueQueue) Len() int { return len(q) }
func (q dueQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].id < q[j].id
}
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)   { *q = append(*q, x.(due)) }
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// next is when time alone will change the reservation; 0 is never.
func (s *State) next(r *Reservation) Time {
	switch provider := s.Self == r.Provider; {
	case r.State.Over():
		return r.Changed.plus(Retention)
	case r.State == api.Releasing:
		return 0
	case s.Self == "" && r.State == api.Held, s.Self != "" && provider && r.State == api.Held:
		return r.HeldUntil
	case s.Self != "" && provider:
		return r.Until.plus(SkewGrace)
	default: // a broker's, or a consumer's own: a hold of which nothing more is heard ends with its time
		return r.Until
	}
}

// soonest returns the reservation that is due first, if one is due now.
func (s *State) soonest(now Time) *Reservation {
	if len(s.due) == 0 || s.due[0].at > now {
		return nil
	}
	return s.reservations[s.due[0].id]
}

// settle drops the entries at the top whose reservation has moved on, so that the
// top, if there is one, is what is due first.
func (s *State) settle() {
	for len(s.due) > 0 {
		r := s.reservations[s.due[0].id]
		if r != nil && s.next(r) == s.due[0].at {
			return
		}
		heap.Pop(&s.due)
	}
}
