package market

import (
	"container/heap"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// due is when time alone may change a reservation, or a join token. An entry about
// what has moved on is ignored when its time comes.
type due struct {
	at    Time
	id    string
	token bool
}

// dueQueue is a heap of what is due, soonest first; ties by ID, so that two
// machines expire in the same order.
type dueQueue []due

func (q dueQueue) Len() int { return len(q) }
func (q dueQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return a.at < b.at || a.at == b.at && (a.id < b.id || a.id == b.id && a.token && !b.token)
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
		return max(r.Changed.plus(s.retention()), r.RememberUntil)
	case s.owes(r) != nothing:
		return atOnce
	case r.State == api.Releasing && s.Self == "":
		return max(r.Ended, r.Created).plus(FreeTime)
	case r.State == api.Releasing && provider: // what its own cluster has is gone when it is gone
		return 0
	case r.State == api.Releasing:
		return max(r.Ended, r.EndsAt()).plus(FreeTime)
	case s.Self == "" && r.State == api.Pending:
		return r.WaitUntil
	case r.State == api.Pending:
		return r.WaitUntil.plus(DecideTime)
	case s.Self == "" && r.State == api.Held, s.Self != "" && provider && r.State == api.Held:
		return r.HeldUntil
	case s.Self != "" && provider:
		if c := r.Changing(); c != nil { // accepted, and perhaps recorded: it may last longer
			return r.endOf(max(r.Until, c.Until)).plus(SkewGrace)
		}
		return r.EndsAt().plus(SkewGrace)
	case s.Self != "" && r.State == api.Held: // a consumer's own, of which nothing more is heard: nobody can accept it any more
		return max(r.HeldUntil, r.ApproveBy).plus(DecideTime)
	case s.Self == "" && r.Changing() != nil:
		return min(r.EndsAt(), r.Change.HeldUntil)
	default:
		return r.EndsAt()
	}
}

// retention is how long what is over is remembered. An agent needs it only until no signed
// document of it can be shown again; its Ledger is small.
func (s *State) retention() time.Duration {
	if s.Self != "" {
		return time.Hour
	}
	return Retention
}

// useless is when nobody needs to remember the token any more.
func (t *Token) useless() Time { return t.Expires.plus(Retention) }

// await adds an entry, unless it is never due.
func (s *State) await(d due) {
	if d.at == 0 {
		return
	}
	s.due = append(s.due, d)
	heap.Fix(&s.due, len(s.due)-1) // as heap.Push, which would allocate
	// What was to last a year and ended today must not stay in the queue for a year.
	if len(s.due) > 1024+2*(len(s.reservations)+len(s.tokens)) {
		s.due = slices.DeleteFunc(s.due, s.movedOn)
		heap.Init(&s.due)
	}
}

func (s *State) movedOn(d due) bool {
	if d.token {
		t := s.tokens[d.id]
		return t == nil || t.useless() != d.at
	}
	r := s.reservations[d.id]
	return r == nil || s.next(r) != d.at
}

// settle drops the entries at the top that are about what has moved on, so that the
// top, if there is one, is what is due first.
func (s *State) settle() {
	for len(s.due) > 0 && s.movedOn(s.due[0]) {
		heap.Pop(&s.due)
	}
}
