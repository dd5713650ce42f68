package market

import (
	"container/heap"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// due is when time alone will change a reservation, or make a join token useless. Each has one entry, which moves in the queue whenever
// that time changes: so the queue is never longer than what the market has, and all in it is true.
type due struct {
	at    Time
	id    string
	token bool
	place int // in the queue; absent: it is not in it
}

const absent = -1

// dueQueue is a heap of what is due, soonest first; ties by ID, so that two
// machines expire in the same order.
type dueQueue []*due

func (q dueQueue) Len() int { return len(q) }
func (q dueQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return a.at < b.at || a.at == b.at && (a.id < b.id || a.id == b.id && a.token && !b.token)
}
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *dueQueue) Push(x any) {
	d := x.(*due)
	d.place = len(*q)
	*q = append(*q, d)
}
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last], d.place = nil, absent
	*q = (*q)[:last]
	return d
}

// next is when time alone will change the reservation; 0 is never.
func (s *State) next(r *Reservation) Time {
	switch provider := s.Self == r.Provider; {
	case r.State.Over():
		return max(r.Changed.plus(s.retention()), r.RememberUntil)
	case s.debtOf(r) != nothing:
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

// await makes at the time when d is due; 0: never.
func (s *State) await(d *due, at Time) {
	switch before := d.at; {
	case before == at:
		return
	case at == 0:
		heap.Remove(&s.due, d.place)
		d.at = 0
	case before == 0:
		d.at = at
		heap.Push(&s.due, d)
	default:
		d.at = at
		heap.Fix(&s.due, d.place)
	}
}
