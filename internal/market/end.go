package market

import (
	"github.com/bourse-dev/bourse/api"
)

// Release ends a reservation by either party's signed document. A reservation that the provider cannot have
// accepted fails at once. Another one is Releasing, and counts, until the provider reports that it is free.
// Errors: NotFound; Conflict if the document is of an older generation.
type Release struct {
	ID, By     string
	Generation int64
	Reason     api.Reason
	Document   string
	// Renews replaces an end that names no assignment, which other clusters do not accept.
	Renews bool
}

func (c Release) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.By)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.State.Over() || r.State == api.Releasing && (r.End != "" && !c.Renews || c.Document == ""):
		return unchanged(r)
	case s.Self != "": // an agent verified the document
	case c.Generation < r.Generation:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is at generation %d, the end is of %d", r.ID,
			r.Generation, c.Generation).
			Fix("read the reservation again and end that")
	case r.State == api.Held && c.By == r.Provider:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is held: refuse it", r.ID)
	case r.State == api.Pending, r.State == api.Held && r.Assignment == "":
		return over(r, api.Failed, api.ReasonCancelled, "", now), nil
	}
	s.recordEnd(r, c.By, now)
	r.State, r.Reason, r.Message, r.End, r.Next = api.Releasing, c.Reason, "", c.Document, nil
	return changed(r, now), nil
}

// Free is the provider's report that nothing of a reservation is left. It no longer counts.
// Errors: NotFound; Forbidden for others than the provider; Conflict before its end.
type Free struct{ ID, Provider string }

func (c Free) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.Provider)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Provider != c.Provider:
		return Outcome{}, api.Errorf(api.CodeForbidden, "only the provider says that a reservation is free")
	case r.State.Over():
		return unchanged(r)
	case r.State != api.Releasing:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s: end it first", r.ID, r.State)
	}
	return over(r, api.Released, r.Reason, "", now), nil
}

// Activate is the consumer's report that its virtual node is Ready.
// Errors: NotFound; Conflict if the reservation is neither Reserved nor Active.
type Activate struct{ ID, Consumer string }

func (c Activate) decide(s *State, now Time) (Outcome, error) {
	r, err := s.find(c.ID, c.Consumer)
	switch {
	case err != nil:
		return Outcome{}, err
	case r.Consumer != c.Consumer:
		return Outcome{}, api.Errorf(api.CodeForbidden, "only the consumer says that a reservation is active")
	case r.State == api.Active:
		return unchanged(r)
	case r.State != api.Reserved:
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s is %s, not %s", r.ID, r.State, api.Reserved)
	}
	r.State = api.Active
	return changed(r, now), nil
}
