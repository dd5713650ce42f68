package market

import (
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Change is a newer assignment of a bound reservation, signed by its consumer. Until the provider
// answers, the larger of the old and the new size counts. A refused change stays, so that its
// generation is not used again.
type Change struct {
	Generation int64        `json:"generation"`
	Size       amounts.List `json:"size"`
	// Units is the new number of units of its plan; 0: no purchase.
	Units int64 `json:"units,omitempty"`
	// From is when payment for these units begins.
	From  Time `json:"from,omitempty"`
	Until Time `json:"until"`
	// Assignment is the document. Acceptance, at the gate, is the answer.
	Assignment string `json:"assignment"`
	Acceptance string `json:"acceptance,omitempty"`
	// HeldUntil is the deadline for the answer at the broker; in the consumer's agent, when the
	// assignment expires.
	HeldUntil Time `json:"heldUntil,omitempty"`
	// Reason and Message say why it was refused. Empty: it was not.
	Reason  api.Reason `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
}

// ShrinkTime is how long a loss is added to the next one. It is longer than excess pods may stay.
const ShrinkTime = 5 * time.Minute

// RetryTime is how long the same change is not asked for again after it was refused.
const RetryTime = time.Minute

// MaxStretches is how often a contract may change its units. Both sides keep each change in their Ledgers.
const MaxStretches = 256

// Shrunk is the amount that a reservation lost, and when.
type Shrunk struct {
	By amounts.List `json:"by"`
	At Time         `json:"at"`
}

// Bound reports whether the reservation binds both sides.
func (r *Reservation) Bound() bool { return r.State == api.Reserved || r.State == api.Active }

// Changing returns the change that awaits an answer, or nil.
func (r *Reservation) Changing() *Change {
	if c := r.Change; c != nil && c.Reason == "" && r.Bound() {
		return c
	}
	return nil
}

// Latest returns the newest known generation.
func (r *Reservation) Latest() int64 {
	if r.Change == nil {
		return r.Generation
	}
	return max(r.Generation, r.Change.Generation)
}

// Unchanged returns a change to the present size, units and end.
func (r *Reservation) Unchanged() Change {
	c := Change{Size: r.Size, Until: r.Until}
	if r.Sale != nil {
		c.Units = r.Sale.Units
	}
	return c
}

// With returns a copy of the reservation with the size, units and end of a change.
func (r *Reservation) With(c Change) *Reservation {
	next := clone(r)
	next.Generation, next.Size, next.Until = c.Generation, c.Size, c.Until
	if r.Sale != nil {
		next.Sale, next.From = &api.Sale{Offer: r.Sale.Offer, Plan: r.Sale.Plan, Units: c.Units}, c.From
	}
	return next
}

// Asked returns the newest assignment that was not refused, and its generation.
func (r *Reservation) Asked() (assignment string, generation int64) {
	if c := r.Changing(); c != nil {
		return c.Assignment, c.Generation
	}
	return r.Assignment, r.Generation
}

// AnswerTo returns the acceptance of an assignment, or an empty text.
func (r *Reservation) AnswerTo(assignment string) string {
	switch {
	case r == nil || !r.State.Counts():
		return ""
	case r.Assignment == assignment:
		return r.Acceptance
	case r.Changing() != nil && r.Change.Assignment == assignment:
		return r.Change.Acceptance
	}
	return ""
}

// Usage returns the amounts that the reservation takes of its provider.
func (r *Reservation) Usage() amounts.List {
	if c := r.Changing(); c != nil {
		return r.Size.Max(c.Size)
	}
	return r.Size
}

// Ending returns what the reservation lost, as a reservation that ends, or nil.
func (r *Reservation) Ending() *Reservation {
	if r.Shrunk == nil {
		return nil
	}
	part := clone(r)
	part.State, part.Size, part.Changed, part.Change, part.Shrunk = api.Releasing, r.Shrunk.By, r.Shrunk.At, nil, nil
	return part
}

// ApplyChange applies a change to the reservation.
func (r *Reservation) ApplyChange(c Change, now Time) {
	shrunk := r.lost(c.Size, now)
	past, before := r.Past, r.Until
	if r.Sale != nil && (r.Sale.Units != c.Units) {
		past = append(past[:len(past):len(past)], Stretch{r.From, r.Sale.Units})
	} else {
		c.From = r.From
	}
	*r = *r.With(c)
	r.accepted(before)
	r.Past, r.Shrunk, r.Assignment, r.Acceptance = past, shrunk, c.Assignment, c.Acceptance
	r.Reason, r.Message, r.Change = "", "", nil
}

// accepted records an end that this cluster has signed. It may be later than the present one.
func (r *Reservation) accepted(until Time) {
	if until > max(r.Until, r.Longest) {
		r.Longest = until
	}
}

// settle drops the change of a reservation that is not bound.
func (r *Reservation) settle() {
	if !r.Bound() {
		if r.Change != nil && r.Change.Acceptance != "" {
			r.accepted(r.Change.Until)
		}
		r.Change = nil
	}
}

// lost returns what the reservation loses by another size, with what it lost within ShrinkTime:
// pods may still have to go for that.
func (r *Reservation) lost(next amounts.List, now Time) *Shrunk {
	had, since := r.Size, now
	if s := r.Shrunk; s != nil && now < s.At.plus(ShrinkTime) {
		had, since = had.Plus(s.By), s.At
	}
	by := had.Beyond(next)
	if len(by) == 0 {
		return nil
	}
	return &Shrunk{By: by, At: since}
}

// refuse replaces the change by its refusal.
func (r *Reservation) refuse(reason api.Reason, message string) {
	if r.Change.Acceptance != "" {
		r.accepted(r.Change.Until)
	}
	no := r.Change.TurnedDown(reason, message)
	r.Change = &no
}

// TurnedDown returns the refused change, without its documents.
func (c Change) TurnedDown(reason api.Reason, message string) Change {
	return Change{Generation: c.Generation, Size: c.Size, Units: c.Units, Until: c.Until, Reason: reason, Message: message}
}

// Reassign asks for another size or end of a bound reservation, by a newer assignment of its
// consumer. Errors: NotFound; Conflict if it is not bound, the generation is not newer, or another
// change awaits its answer; Insufficient and Forbidden if the growth does not fit; CapReached.
type Reassign struct {
	ID, Consumer string
	// Generation, Size, Until and Document are of the assignment, which was verified.
	Generation int64
	Size       amounts.List
	// Units is the number of units of its plan; 0: no purchase.
	Units int64
	// From is when payment for these units begins.
	From     Time
	Until    Time
	Document string
	// Caps bound every consumer.
	Caps Caps
}

func (c Reassign) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.Consumer)
	if err != nil {
		return Outcome{}, err
	}
	if asked, _ := r.Asked(); asked == c.Document {
		return unchanged(r)
	}
	switch {
	case r.Consumer != c.Consumer:
		return Outcome{}, api.Errorf(api.CodeForbidden, "only the consumer changes a reservation")
	case !r.Bound() || c.Generation <= r.Latest():
		return Outcome{}, api.Errorf(api.CodeConflict,
			"reservation %s is %s at generation %d: it cannot become generation %d",
			r.ID, r.State, r.Latest(), c.Generation).Fix("read the reservation again")
	case r.Changing() != nil:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is changing to generation %d", r.ID,
			r.Change.Generation).
			Fix("wait for its answer")
	case c.Until <= now:
		return Outcome{}, api.Invalid("until", "%s is over", c.Until.Go().Format(time.RFC3339)).
			Fix("release it instead: bourse release %s", r.ID)
	}
	if err := s.checkCaps(r.Consumer, c.Caps, 0, c.Size.Beyond(r.Size)); err != nil {
		return Outcome{}, err
	}
	if err := s.checkBytes(r.Consumer, c.Caps, changeBytes+int64(len(c.Document)+listBytes(c.Size))); err != nil {
		return Outcome{}, err
	}
	if err := s.checkChange(r, c.Size, c.Units, c.Until, now); err != nil {
		return Outcome{}, err
	}
	r.Change = &Change{
		Generation: c.Generation, Size: c.Size, Units: c.Units, From: c.From, Until: c.Until,
		Assignment: c.Document, HeldUntil: now.plus(HoldTime),
	}
	return changed(r, now), nil
}

// checkChange reports why a reservation cannot have another size and end, or nil. A smaller size
// always fits. A purchase can grow or last longer only while its plan is on sale unchanged.
func (s *State) checkChange(r *Reservation, size amounts.List, units int64, until, now Time) error {
	grows := len(size.Beyond(r.Size)) > 0
	if r.Sale != nil && units != r.Sale.Units && len(r.Past) >= MaxStretches {
		return api.Errorf(api.CodeConflict, "reservation %s has changed its units %d times", r.ID, MaxStretches).
			Fix("make a new purchase")
	}
	if r.Sale != nil && (grows || until > r.Until) {
		has := r.sold().larger(s.provider(r.Provider).sold.listed[r.ID])
		if err := s.checkStock(r.Sale, units, has.Units, now); err != nil {
			return err
		}
	}
	if !grows {
		return nil
	}
	if err := s.checkDedicated(r.Provider, r.Pool, r.Consumer, r.Sale); err != nil {
		return err
	}
	return s.checkResize(r.Size, r.Provider, r, size, now)
}
