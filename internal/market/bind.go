package market

import (
	"github.com/bourse-dev/bourse/api"
)

// AssignmentOf returns the assignment for the consumer of a held reservation to sign. The keys are
// fingerprints.
func AssignmentOf(r *Reservation, consumerKey, providerKey string) api.Assignment {
	return api.Assignment{
		Protocol: api.Protocol, Reservation: r.ID, Generation: r.Generation,
		Consumer: r.Consumer, ConsumerKey: consumerKey, Provider: r.Provider, ProviderKey: providerKey,
		Pool: r.Pool, Slice: r.Slice(), Resources: r.Size.Resources(),
		// Documents have whole seconds: RFC 3339 as metav1.Time writes it.
		Until: (r.Until / 1000 * 1000).Meta(), Expires: (r.answerBy() / 1000 * 1000).Meta(),
		Sale: r.Sale, Begins: (r.From / 1000 * 1000).Meta(), Relend: r.Relend, RelendKey: r.RelendKey,
	}
}

// Confirm binds the consumer: its signed assignment goes to the provider. Errors: NotFound; Conflict if the
// reservation is not held or the generation is old; CapReached if the document is larger than estimated, and
// the consumer may not have that many bytes.
type Confirm struct {
	ID, Consumer string
	// Generation and Document are of the assignment, which was verified.
	Generation int64
	Document   string
	// Caps bound every consumer.
	Caps Caps
}

func (c Confirm) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.Consumer)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Consumer != c.Consumer:
		return Outcome{}, api.Errorf(api.CodeForbidden, "only the consumer confirms a reservation")
	case r.Assignment == c.Document:
		return unchanged(r)
	case r.State != api.Held || r.Generation != c.Generation || r.Assignment != "":
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d, not held at %d",
			r.ID, r.State, r.Generation, c.Generation)
	case s.debtOf(r) != nothing:
		return Outcome{}, partyChanged(r)
	}
	reckoned := footprint(r)
	r.Assignment = c.Document
	if more := footprint(r) - reckoned; more > 0 {
		if err := s.checkBytes(c.Consumer, c.Caps, more); err != nil {
			return Outcome{}, err
		}
	}
	r.HeldUntil = max(min(now.plus(HoldTime), r.Deadline), r.ApproveBy)
	return changed(r, now), nil
}

// Accept binds the provider: the reservation is Reserved.
// Errors: NotFound; Conflict if it is no longer held for this provider: the acceptance is void.
type Accept struct {
	ID, Provider string
	Generation   int64
	Document     string
}

func (c Accept) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.Provider)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Provider == c.Provider && r.Acceptance == c.Document:
		return unchanged(r)
	case r.Provider == c.Provider && r.Changing() != nil && r.Change.Generation == c.Generation:
		next := *r.Change
		next.Acceptance = c.Document
		r.ApplyChange(next, now)
		r.Adopted = 0 // the provider says itself that it is in force
		return changed(r, now), nil
	case r.Provider != c.Provider || r.State != api.Held || r.Generation != c.Generation || r.Assignment == "":
		return Outcome{}, api.Errorf(api.CodeConflict,
			"reservation %s is %s at generation %d: it is no longer held for this acceptance",
			r.ID, r.State, r.Generation)
	case s.debtOf(r) != nothing:
		return Outcome{}, partyChanged(r)
	}
	r.State, r.Acceptance, r.Next, r.HeldUntil, r.ApproveBy = api.Reserved, c.Document, nil, 0, 0
	return changed(r, now), nil
}

// Refuse rejects a hold, by the provider, or by the consumer before it signs. The hold moves to the
// next candidate, for another signature. A provider also refuses the change of a bound reservation,
// which then stays as it is. Errors: NotFound; Conflict if there is nothing to refuse.
type Refuse struct {
	ID, By     string
	Generation int64
	Reason     api.Reason
	Message    string
}

func (c Refuse) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.By)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Provider == c.By && r.Changing() != nil && r.Change.Generation == c.Generation:
		r.refuse(c.Reason, c.Message)
		return changed(r, now), nil
	case r.Provider != c.By && r.Assignment != "" || r.State != api.Held || r.Generation != c.Generation:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s at generation %d: there is nothing to refuse",
			r.ID, r.State, r.Generation)
	}
	return s.moveOn(r, api.Tried{Provider: r.Provider, Reason: c.Reason, Message: c.Message}, now), nil
}

// IfRevision is a command that is decided only while a reservation is at a revision.
// Errors: PreconditionFailed, and the command's.
type IfRevision struct {
	ID       string
	Revision uint64
	Command  Command
}

func (c IfRevision) decide(s *State, now Time) (Outcome, error) {
	if r := s.Reservation(c.ID); r != nil && r.Revision != c.Revision {
		return Outcome{}, api.Errorf(api.CodePrecondition, "reservation %s is at revision %d, not %d", c.ID, r.Revision,
			c.Revision).
			At("If-Match").Fix("read it again")
	}
	return c.Command.decide(s, now)
}
