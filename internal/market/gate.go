package market

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Admit records, at a gate, that it accepts an assignment. Signature, keys and policy were checked
// before. Errors: Insufficient and Forbidden if it does not fit; Suspended; Unavailable if the
// terms changed since they were checked; Conflict for a generation that is not newer than the known
// one.
type Admit struct {
	Assignment api.Assignment
	Size       amounts.List
	// Document is the assignment's JWS, Acceptance the gate's answer, which binds until BindsUntil.
	Document, Acceptance string
	BindsUntil           Time
	// ApproveBy is the deadline for an admin to [Approve] it; there is no Acceptance yet. 0: it is accepted.
	ApproveBy Time
	Fence     api.Fence
	// Terms are those that the assignment was checked against; nil: none.
	Terms *Terms
	// Adopt restores what this gate accepted before and its Ledger lost. Capacity is not checked.
	Adopt bool
	// Via is the cluster whose connector it came through, or "broker/NAME"; empty: the main broker.
	Via string
	// Offer is the purchased one, to be kept with it; nil: no purchase.
	Offer *Offer
}

func (c Admit) decide(s *State, now Time) (Outcome, error) {
	a := c.Assignment
	old := s.reservations[a.Reservation]
	switch {
	case a.Provider != s.Self || a.Consumer == s.Self:
		return Outcome{}, api.Errorf(api.CodeForbidden, "the assignment is of cluster %s for cluster %s", a.Consumer,
			a.Provider)
	case old == nil && s.Spent(a.Reservation, "", 0, now): // its documents could be mistaken for the old ones
		return Outcome{}, api.Errorf(api.CodeConflict, "a reservation %s was accepted here before, and is over",
			a.Reservation).
			Fix("ask again: each reservation has its own ID")
	case old != nil && old.Assignment == c.Document && old.State.Counts():
		return unchanged(old)
	case c.Adopt && (old == nil || old.State.Over()) && s.Spent("", a.Consumer, c.BindsUntil, now):
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s was accepted here so long ago that it is over",
			a.Reservation)
	}
	if old != nil {
		if err := c.checkSame(old); err != nil {
			return Outcome{}, err
		}
		if c.changes(old) {
			return c.change(s, clone(old), now)
		}
		if old.Generation >= a.Generation || old.Consumer != a.Consumer || old.State.Counts() {
			return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s here at generation %d", old.ID, old.State,
				old.Generation)
		}
	}
	r := assigned(a, c.Size, c.Document, c.Acceptance, now)
	r.State, r.HeldUntil, r.ApproveBy, r.AcceptBy = api.Held, c.BindsUntil, c.ApproveBy, c.BindsUntil
	r.Fence, r.Via = c.Fence, c.Via
	if err := c.checkPolicy(s); err != nil {
		return Outcome{}, err
	}
	if err := cmp.Or(s.checkCapacity(s.Self, r, now), s.checkRemembered(a.Consumer)); err != nil && !c.Adopt {
		return Outcome{}, err
	}
	if c.Adopt { // it was committed, so it binds beyond BindsUntil
		r.State, r.HeldUntil = api.Reserved, 0
	}
	return s.keepOffer(c.Offer, changed(r, now), now), nil
}

// checkSame reports what the assignment of a known reservation may not change.
func (c Admit) checkSame(old *Reservation) error {
	a := c.Assignment
	if !samePlan(old.Sale, a.Sale) {
		return api.Errorf(api.CodeConflict, "reservation %s is from another plan", old.ID).
			Fix("make another reservation from that plan")
	}
	if (old.Relend != a.Relend || old.RelendKey != a.RelendKey) && old.State.Counts() {
		return api.Errorf(api.CodeConflict, "reservation %s and the assignment differ in relend", old.ID).
			Fix("make another reservation")
	}
	return nil
}

// changes reports whether the assignment is a change of a known reservation, which binds.
func (c Admit) changes(old *Reservation) bool {
	a := c.Assignment
	return (old.Bound() || c.Adopt && old.State == api.Held) &&
		old.Consumer == a.Consumer && old.Pool == a.Pool && a.Generation > old.Generation
}

// samePlan reports whether two sales are of the same plan of the same offer, or both nil.
func samePlan(a, b *api.Sale) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Offer == b.Offer && a.Plan == b.Plan)
}

// change admits a change of a bound reservation.
func (c Admit) change(s *State, r *Reservation, now Time) (Outcome, error) {
	next := Change{
		Generation: c.Assignment.Generation, Size: c.Size, Until: At(c.Assignment.Until.Time),
		Assignment: c.Document, Acceptance: c.Acceptance,
	}
	if r.Sale != nil {
		next.Units, next.From = c.Assignment.Sale.Units, At(c.Assignment.Begins.Time)
	}
	if pending := r.Changing(); pending != nil && pending.Assignment == c.Document {
		return unchanged(r)
	}
	if more := !r.Size.Fits(c.Size) || next.Until > r.Until; more {
		if err := c.checkPolicy(s); err != nil {
			return Outcome{}, err
		}
	}
	// another may have taken the capacity of a dropped one
	if promised := c.Adopt && next.Generation > r.Latest(); !promised {
		if err := s.checkChange(r, c.Size, next.Units, next.Until, now); err != nil {
			return Outcome{}, err
		}
	}
	r.AcceptBy = max(r.AcceptBy, c.BindsUntil)
	if c.Adopt {
		r.ApplyChange(next, now)
		if r.State == api.Held { // its commit was lost, too
			r.State, r.HeldUntil, r.ApproveBy = api.Reserved, 0, 0
		}
		r.Fence = c.Fence
		return changed(r, now), nil
	}
	r.Change, r.Fence = &next, c.Fence
	return changed(r, now), nil
}

// checkPolicy reports why the consumer may not have more: the admin suspended it, or the terms have changed.
func (c Admit) checkPolicy(s *State) error {
	if c.Adopt {
		return nil
	}
	if err := s.checkSuspension(c.Assignment.Consumer); err != nil {
		return err
	}
	var now *Terms
	if p := s.providers[s.Self]; p != nil && p.measured != nil {
		now = p.measured.Terms
	}
	if c.Terms != nil && c.Terms != now && !equality.Semantic.DeepEqual(c.Terms, now) {
		return api.Errorf(api.CodeUnavailable, "the SharingPolicy of %s has just changed", s.Self).Fix("it is checked again")
	}
	return nil
}

// Commit records, at a gate, that the broker has its acceptance, which now binds for the whole reservation.
// Errors: NotFound; Conflict if the acceptance was dropped or never given.
type Commit struct {
	ID         string
	Generation int64
	Fence      api.Fence
}

func (c Commit) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, s.Self)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Provider != s.Self:
		return Outcome{}, api.Errorf(api.CodeForbidden, "reservation %s is not provided by cluster %s", r.ID, s.Self)
	case r.Changing() != nil && r.Change.Generation == c.Generation:
		r.ApplyChange(*r.Change, now)
		r.Fence = c.Fence
		return changed(r, now), nil
	case r.Generation != c.Generation || r.State.Over() || r.State == api.Releasing:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s here at generation %d", r.ID, r.State,
			r.Generation)
	case r.State != api.Held:
		return unchanged(r)
	case r.AwaitsApproval(): // a broker cannot approve
		return Outcome{}, api.Errorf(api.CodeConflict, "nobody here has approved reservation %s", r.ID)
	}
	r.State, r.HeldUntil, r.ApproveBy, r.Fence = api.Reserved, 0, 0, c.Fence
	return changed(r, now), nil
}

// Note records, in a consumer's agent, the state of one of its own reservations, and its offer. The agent
// checked it against the request. An end is final, and an instruction older than the newest one is ignored.
type Note struct {
	Reservation *Reservation
	// Signer and At say who signed its end, and when that began; empty and 0: nobody, now.
	Signer string
	At     Time
}

func (c Note) decide(s *State, now Time) (Outcome, error) {
	old, r := s.reservations[c.Reservation.ID], clone(c.Reservation)
	r.settle()
	switch {
	case r.Consumer != s.Self || r.Provider == s.Self:
		return Outcome{}, api.Errorf(api.CodeForbidden, "reservation %s is not a request of cluster %s", r.ID, s.Self)
	case old != nil && !old.leadsTo(r):
		return unchanged(old)
	}
	if r.State == api.Releasing || r.State == api.Released && c.Signer != "" {
		r.Ended = cmp.Or(r.Ended, r.EndedAt(c.Signer, c.At, now))
	}
	if ending := old != nil && old.State == api.Releasing; c.Signer != "" && r.Acceptance != "" && !ending {
		r.Reason = r.endReason(c.Signer, r.Reason)
	}
	return s.keepOffer(c.Reservation.Offer, changed(r, now), now), nil
}

// leadsTo reports whether next is a newer state of the same reservation.
func (r *Reservation) leadsTo(next *Reservation) bool {
	ending := r.State == api.Releasing && !next.State.Over() && next.State != api.Releasing
	older := next.Fence.Before(r.Fence)
	if r.State.Over() || ending || older {
		return false
	}
	known, same := *r, *next
	same.Changed, same.Revision, same.Bytes, same.Why, same.Offer = r.Changed, r.Revision, r.Bytes, r.Why, r.Offer
	known.due, same.due = nil, nil // unexported fields cannot be compared
	return !equality.Semantic.DeepEqual(&known, &same)
}
