package market

import (
	"cmp"
	"time"

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
	// Signer and At say who signed the document, and when it began to end; empty and 0: By, now.
	Signer string
	At     Time
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
	signer, known := cmp.Or(c.Signer, c.By), r.State == api.Releasing && r.Ended != 0
	r.Ended = cmp.Or(r.Ended, r.EndedAt(signer, c.At, now))
	switch {
	case known, r.Reason == api.ReasonMemberRemoved: // an end that is renewed, or that an operator caused, keeps its reason
	case r.Bound() || r.State == api.Releasing:
		r.Reason = r.endReason(signer, c.Reason)
	default:
		r.Reason = c.Reason
	}
	r.State, r.Message, r.End, r.Next = api.Releasing, "", c.Document, nil
	return changed(r, now), nil
}

// endReason returns the reason for which an end counts that a party signed, where both were bound. Each party speaks
// for itself. When the end of a provider began, and not what it says, decides whether it kept its time.
func (r *Reservation) endReason(signer string, reason api.Reason) api.Reason {
	early := r.Ended.plus(SkewGrace) < r.EndsAt()
	switch {
	case signer != r.Provider && (reason == "" || reason == api.ReasonCancelled || reason == api.ReasonEnded && !early):
		return reason
	case signer != r.Provider:
		return api.ReasonReleased
	case early:
		return api.ReasonRevokedByProvider
	case r.EndsAt() == r.ReclaimAt:
		return api.ReasonReclaimed
	}
	return api.ReasonEnded
}

// latestEnd is how long before it arrives the end counts that a consumer signs.
const latestEnd = time.Minute

// EndedAt returns when a reservation began to end that a party signed the end of: at the time in its document (0: it
// has none), so that both books have the same. A time that harms the other party does not count, and now counts
// instead: a time to come, and one with which a consumer pays for more than a minute less.
func (r *Reservation) EndedAt(signer string, signed, now Time) Time {
	earliest := max(r.Created, 1)
	if signer != r.Provider {
		earliest = max(earliest, now.plus(-latestEnd))
	}
	if signed < earliest || signed > now {
		return now
	}
	return signed
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
