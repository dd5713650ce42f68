package market

import (
	"cmp"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Bounds of a request that waits.
const (
	MinWait     = time.Second
	MaxWait     = 720 * time.Hour
	MaxPriority = 100 // and as much below 0
	// maxRefusals is how many refusals, and holds that its consumer did not sign, end the waiting of a request.
	maxRefusals = 16
)

// Since returns the time of the request. A reservation that waited is Created when it is held.
func (r *Reservation) Since() Time { return cmp.Or(r.WaitedSince, r.Created) }

// Priority returns the priority of the request; 0 if the request is unknown.
func (r *Reservation) Priority() int32 {
	if r.Request == nil {
		return 0
	}
	return r.Request.Priority
}

// queues orders waiting requests: by priority, then age, then ID.
func queues(a, b *Reservation) int {
	return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), cmp.Compare(a.Since(), b.Since()), cmp.Compare(a.ID, b.ID))
}

// Precedes reports whether r is served before o, if both wait.
func (r *Reservation) Precedes(o *Reservation) bool { return queues(r, o) < 0 }

// move makes a reservation begin at a time. Its duration stays.
func (r *Reservation) move(begin Time) { r.Created, r.Until = begin, r.Until+begin-r.Created }

// enqueue puts r into the queue, or back to its place there. No plan is chosen for it any more.
func (r *Reservation) enqueue(message string) {
	if r.Plans != nil {
		if size, err := amounts.ParseRequest("resources", r.Request.Resources); err == nil {
			r.Size = size
		}
		r.Plans, r.Sale, r.Offer = nil, nil, nil
	}
	r.State, r.Reason, r.Message = api.Pending, api.ReasonNoCandidate, message
	r.move(r.Since())
	r.WaitedSince, r.From, r.HeldUntil, r.ApproveBy, r.Deadline = 0, 0, 0, 0, 0
	r.Provider, r.Next, r.Assignment, r.Acceptance = "", nil, "", ""
}

// waits reports whether r may go back to the queue.
func (r *Reservation) waits(now Time) bool { return now < r.WaitUntil && len(r.Tried) < maxRefusals }

// Serve places a waiting reservation on the first candidate with the capacity. Its whole duration counts from
// now. Errors: NotFound; Conflict if it does not wait any more; Insufficient if no candidate has the capacity
// any more; NotMember and Suspended.
type Serve struct {
	ID string
	// Candidates are providers, best first. Plans are the plans of those that sell instead of
	// lending. Decision explains it.
	Candidates []string
	Plans      map[string]*api.Sale
	Decision   *api.Decision
}

func (c Serve) decide(s *State, now Time) (Outcome, error) {
	r := s.reservations[c.ID]
	switch {
	case r == nil:
		return Outcome{}, api.Errorf(api.CodeNotFound, "no reservation %.80q", c.ID)
	case r.State != api.Pending || now >= r.WaitUntil:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s: it does not wait", r.ID, r.State)
	}
	if err := s.active(r.Consumer); err != nil {
		return Outcome{}, err
	}
	r = clone(r)
	r.WaitedSince, r.Plans = r.Created, c.Plans
	r.move(now)
	if r.Deadline = now.plus(DecideTime); r.Sale != nil {
		r.From = now / 1000 * 1000
	}
	if r = s.place(r, c.Candidates, now); r == nil {
		return Outcome{}, noneFits(c.Candidates)
	}
	decision := *c.Decision
	decision.Chosen, decision.Sequence = r.Provider, s.providers[r.Provider].measured.Sequence
	out := changed(r, now)
	out.Events[0].Reservation.Why, out.Decision = Explain(&decision), &decision
	return out, nil
}

// endWaiting rejects a request after its whole time, with the explanation of its last try.
func (s *State) endWaiting(r *Reservation, now Time) Outcome {
	if s.Self != "" {
		return over(r, api.Expired, api.ReasonNotAccepted, "no further message about it arrived", now)
	}
	out := over(r, api.Rejected, api.ReasonNoCandidate, "no cluster could serve it while it waited", now)
	out.Events[0].Reservation.Why = s.tries[r.ID]
	return out
}

// updateQueue adds r to the waiting requests, or removes old, in their order.
func (s *State) updateQueue(old, r *Reservation) {
	if old != nil && old.State == api.Pending {
		if i, found := slices.BinarySearchFunc(s.waiting, old, queues); found {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		}
		s.queued++
		if r == nil || r.State != api.Pending {
			delete(s.tries, old.ID)
		}
	}
	if r != nil && r.State == api.Pending {
		i, _ := slices.BinarySearchFunc(s.waiting, r, queues)
		s.waiting = slices.Insert(s.waiting, i, r)
		s.queued++
	}
}

// Waiting returns the waiting reservations, in their order.
func (s *State) Waiting() []*Reservation { return slices.Clone(s.waiting) }

// Position returns the place of a waiting reservation, from 1 on; 0: it does not wait.
func (s *State) Position(r *Reservation) int {
	if i, found := slices.BinarySearchFunc(s.waiting, r, queues); found {
		return i + 1
	}
	return 0
}

// RecordTry stores the explanation of the last try to serve a waiting request: soft state.
func (s *State) RecordTry(id string, why Why) {
	if r := s.reservations[id]; r != nil && r.State == api.Pending {
		s.tries[id] = why
	}
}
