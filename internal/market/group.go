package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// HoldTogether places the parts of one request on as many providers, or none of them. Each part is a
// reservation that names all parts and has the key of the first. If one part fails before it is bound, the
// others end: see [State.failGroup]. Errors: those of [Hold].
type HoldTogether struct{ Parts []*Hold }

func (c HoldTogether) decide(s *State, now Time) (Outcome, error) {
	first := c.Parts[0]
	if out, err, done := s.answerHold(first, now); done {
		return out, err
	}
	total := amounts.List{}
	ids := make([]string, len(c.Parts))
	for i, part := range c.Parts {
		if ids[i] = part.ID; s.reservations[part.ID] != nil || slices.Contains(ids[:i], part.ID) {
			return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s exists", part.ID)
		}
		total = total.Plus(part.Size)
	}
	if err := s.checkCaps(first.Consumer, first.Caps, int64(len(c.Parts)), total); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	var taken []string
	var bytes int64
	for _, part := range c.Parts {
		r := part.newReservation()
		r.Key, r.Digest = first.Key, first.Digest
		r.Created, r.Deadline, r.Until, r.Group = now, now.plus(DecideTime), now.plus(part.Duration), ids
		if r = s.place(r, without(part.Candidates, taken), now); r == nil {
			return Outcome{}, api.Errorf(api.CodeInsufficient, "only %d of %d providers still have enough capacity",
				len(taken), len(c.Parts))
		}
		taken = append(taken, r.Provider)
		decision := *part.Decision
		decision.Chosen, decision.Sequence = r.Provider, s.providers[r.Provider].measured.Sequence
		held := changed(r, now)
		held.Events[0].Reservation.Why = Explain(&decision)
		bytes += footprint(r) + int64(len(held.Events[0].Reservation.Why))
		out.Events = append(out.Events, held.Events...)
		if out.Reservation == nil {
			out.Reservation, out.Decision = r, &decision
		}
	}
	if err := s.checkBytes(first.Consumer, first.Caps, bytes); err != nil {
		return Outcome{}, err
	}
	return out, nil
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
}

// candidatesApart returns r's next candidates without the providers of the other parts.
func (s *State) candidatesApart(r *Reservation) []string {
	var others []string
	for _, id := range r.Group {
		if o := s.reservations[id]; o != nil && o.ID != r.ID && !o.State.Over() {
			others = append(others, o.Provider)
		}
	}
	return without(r.Next, others)
}

// failGroup ends the other held parts of a split request if a part in the outcome ended before it was bound.
// The consumer's agent ends bound parts, by its signature.
func (s *State) failGroup(out *Outcome, now Time) {
	for _, e := range out.Events {
		if e.Reservation == nil || len(e.Reservation.Group) == 0 || !e.Reservation.State.Over() ||
			e.Reservation.Acceptance != "" {
			continue
		}
		for _, id := range e.Reservation.Group {
			o := s.reservations[id]
			if o == nil || o.State != api.Held || slices.ContainsFunc(out.Events, func(e Event) bool {
				return e.Reservation != nil && e.Reservation.ID == id
			}) {
				continue
			}
			state, o := api.Releasing, clone(o)
			if o.Assignment == "" {
				state = api.Failed
			}
			message := "part " + e.Reservation.ID + " was not accepted"
			out.Events = append(out.Events, over(o, state, api.ReasonPartFailed, message, now).Events...)
		}
	}
}
