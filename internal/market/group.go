package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// HoldTogether places the parts of one request on as many providers, or none of them. Each is a reservation of its own, which names
// all and has the key of the first: so the key is known as long as one of them is. As long as one of them is not bound they share what becomes of one that nobody accepts: see together.
// Errors: those of [Hold].
type HoldTogether struct{ Parts []*Hold }

func (c HoldTogether) decide(s *State, now Time) (Outcome, error) {
	first := c.Parts[0]
	if out, err, done := s.answerHold(first, now); done {
		return out, err
	}
	total := Amounts{}
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
		free := without(part.Candidates, taken)
		i := s.firstFit(free, r, now)
		if i < 0 {
			return Outcome{}, api.Errorf(api.CodeInsufficient, "of %d providers only %d have room any more", len(c.Parts), len(taken))
		}
		s.placeHold(r, free[i], free[i+1:], now)
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

// candidatesApart returns r's next candidates without the providers of the other parts of its request.
func (s *State) candidatesApart(r *Reservation) []string {
	var others []string
	for _, id := range r.Group {
		if o := s.reservations[id]; o != nil && o.ID != r.ID && !o.State.Over() {
			others = append(others, o.Provider)
		}
	}
	return without(r.Next, others)
}

// failGroup ends the other parts of a split request if one part in the outcome ended and was never bound. Parts that are not bound
// fail. Only the consumer's signature ends a bound part; its agent sends that.
func (s *State) failGroup(out *Outcome, now Time) {
	for _, e := range out.Events {
		if e.Reservation == nil || len(e.Reservation.Group) == 0 || !e.Reservation.State.Over() || e.Reservation.Acceptance != "" {
			continue
		}
		for _, id := range e.Reservation.Group {
			o := s.reservations[id]
			if o == nil || o.State != api.Held || slices.ContainsFunc(out.Events, func(e Event) bool { return e.Reservation != nil && e.Reservation.ID == id }) {
				continue
			}
			if o = clone(o); o.Assignment == "" {
				out.Events = append(out.Events, over(o, api.Failed, api.ReasonPartFailed, "part "+e.Reservation.ID+" was not accepted", now).Events...)
				continue
			}
			o.State, o.Reason, o.Message, o.Next = api.Releasing, api.ReasonPartFailed, "part "+e.Reservation.ID+" was not accepted", nil
			out.Events = append(out.Events, changed(o, now).Events...)
		}
	}
}
