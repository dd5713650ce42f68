package market

import (
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Change is what a bound reservation is to become: a newer assignment, signed by its consumer. The larger of the old and
// the new counts until the provider has answered. What was refused stays, so that its generation is not used again.
type Change struct {
	Generation int64   `json:"generation"`
	Size       Amounts `json:"size"`
	// Units is how many units of its plan it is then; 0 where it is from none.
	Units int64 `json:"units,omitempty"`
	// From is when that begins to be paid for.
	From  Time `json:"from,omitempty"`
	Until Time `json:"until"`
	// Assignment is the document, Acceptance, at the gate, its answer.
	Assignment string `json:"assignment"`
	Acceptance string `json:"acceptance,omitempty"`
	// HeldUntil is when the broker no longer waits for the answer; in the consumer's agent, when its assignment expires.
	HeldUntil Time `json:"heldUntil,omitempty"`
	// Reason and Message say why it will not be. Empty: it may.
	Reason  api.Reason `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
}

// ShrinkTime is how long what a reservation lost is added to what it loses next: longer than pods may stay.
const ShrinkTime = 5 * time.Minute

// MaxStretches is how often a contract may change its units: each time is remembered by both sides, whose Ledgers are small.
const MaxStretches = 256

// Shrunk is what a reservation had more before it became smaller.
type Shrunk struct {
	By Amounts `json:"by"`
	At Time    `json:"at"`
}

// Bound says whether both sides are bound by the reservation.
func (r *Reservation) Bound() bool { return r.State == api.Reserved || r.State == api.Active }

// Changing is the change that awaits an answer, nil if none does.
func (r *Reservation) Changing() *Change {
	if c := r.Change; c != nil && c.Reason == "" && r.Bound() {
		return c
	}
	return nil
}

// Latest is the newest generation that was ever signed, as far as is known.
func (r *Reservation) Latest() int64 {
	if r.Change == nil {
		return r.Generation
	}
	return max(r.Generation, r.Change.Generation)
}

// AsIs is the change that leaves the reservation as it is.
func (r *Reservation) AsIs() Change {
	c := Change{Size: r.Size, Until: r.Until}
	if r.Sale != nil {
		c.Units = r.Sale.Units
	}
	return c
}

// With is the reservation with what a change makes of its size and end.
func (r *Reservation) With(c Change) *Reservation {
	next := clone(r)
	next.Generation, next.Size, next.Until = c.Generation, c.Size, c.Until
	if r.Sale != nil {
		next.Sale, next.From = &api.Sale{Offer: r.Sale.Offer, Plan: r.Sale.Plan, Units: c.Units}, c.From
	}
	return next
}

// Asked is the assignment that awaits the provider's answer, or the one that has it, and its generation.
func (r *Reservation) Asked() (assignment string, generation int64) {
	if c := r.Changing(); c != nil {
		return c.Assignment, c.Generation
	}
	return r.Assignment, r.Generation
}

// AnswerTo is the acceptance that was given to an assignment; empty if none was.
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

// Takes is what the reservation takes of its provider.
func (r *Reservation) Takes() Amounts {
	if c := r.Changing(); c != nil {
		return r.Size.Max(c.Size)
	}
	return r.Size
}

// Ending is the part that a reservation has lost by becoming smaller, as a reservation that ends; nil if there is none.
func (r *Reservation) Ending() *Reservation {
	if r.Shrunk == nil {
		return nil
	}
	part := clone(r)
	part.State, part.Size, part.Changed, part.Change, part.Shrunk = api.Releasing, r.Shrunk.By, r.Shrunk.At, nil, nil
	return part
}

// Become makes the reservation what its change says.
func (r *Reservation) Become(c Change, now Time) {
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

// accepted remembers that this cluster's signature is below an end, which may be later than that of what binds.
func (r *Reservation) accepted(until Time) {
	if until > max(r.Until, r.Longest) {
		r.Longest = until
	}
}

// settle drops the change of what is not bound: what ends changes no more.
func (r *Reservation) settle() {
	if !r.Bound() {
		if r.Change != nil && r.Change.Acceptance != "" {
			r.accepted(r.Change.Until)
		}
		r.Change = nil
	}
}

// lost is what a reservation has lost once it has another size: also what it lost shortly before, since when pods may still
// have to go for that.
func (r *Reservation) lost(next Amounts, now Time) *Shrunk {
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

// refuse leaves of a change only that it was.
func (r *Reservation) refuse(reason api.Reason, message string) {
	if r.Change.Acceptance != "" {
		r.accepted(r.Change.Until)
	}
	no := r.Change.TurnedDown(reason, message)
	r.Change = &no
}

// TurnedDown is what is left of a change that will not be.
func (c Change) TurnedDown(reason api.Reason, message string) Change {
	return Change{Generation: c.Generation, Size: c.Size, Units: c.Units, Until: c.Until, Reason: reason, Message: message}
}

// Reassign is a consumer's newer assignment of what is bound: another size, another end.
// Errors: NotFound; Conflict when it is not bound, not newer, or changing already; Insufficient and Forbidden when what it
// is to have more does not fit; CapReached.
type Reassign struct {
	ID, Consumer string
	// Generation, Size, Until and Document are of the assignment whose signature and content were verified.
	Generation int64
	Size       Amounts
	// Units is how many units of its plan that is; 0 where it is from none.
	Units int64
	// From is when these begin to be paid for.
	From     Time
	Until    Time
	Document string
	// Caps are what every consumer may have.
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
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d: it cannot become generation %d", r.ID, r.State, r.Latest(), c.Generation).
			Fix("read the reservation again")
	case r.Changing() != nil:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is changing to generation %d", r.ID, r.Change.Generation).Fix("wait for its answer")
	case c.Until <= now:
		return Outcome{}, api.Invalid("until", "%s is over", c.Until.Go().Format(time.RFC3339)).Fix("release it instead: bourse release %s", r.ID)
	}
	if err := s.checkCaps(r.Consumer, c.Caps, 0, c.Size.Beyond(r.Size)); err != nil {
		return Outcome{}, err
	}
	if err := s.checkBytes(r.Consumer, c.Caps, changeBytes+int64(len(c.Document)+amounts(c.Size))); err != nil {
		return Outcome{}, err
	}
	if err := s.roomToBecome(r, c.Size, c.Units, c.Until, now); err != nil {
		return Outcome{}, err
	}
	r.Change = &Change{Generation: c.Generation, Size: c.Size, Units: c.Units, From: c.From, Until: c.Until, Assignment: c.Document, HeldUntil: now.plus(HoldTime)}
	return changed(r, now), nil
}

// roomToBecome says why a reservation cannot have another size and end, or nil. What does not grow always can. What is from a
// plan grows, or lasts longer, as long as the plan is on sale as it was bought.
func (s *State) roomToBecome(r *Reservation, size Amounts, units int64, until, now Time) error {
	grows := len(size.Beyond(r.Size)) > 0
	if r.Sale != nil && units != r.Sale.Units && len(r.Past) >= MaxStretches {
		return api.Errorf(api.CodeConflict, "reservation %s has changed its units %d times", r.ID, MaxStretches).Fix("make a new purchase")
	}
	if r.Sale != nil && (grows || until > r.Until) {
		if err := s.checkStock(r.Sale, units, s.provider(r.Provider).sold.of(r.ID), now); err != nil {
			return err
		}
	}
	if !grows {
		return nil
	}
	if err := s.checkDedicated(r.Provider, r.Pool, r.Consumer, r.Sale); err != nil {
		return err
	}
	return s.checkResize(r.Size, r.Provider, r.Pool, r.Consumer, size, now)
}
