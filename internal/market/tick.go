package market

import "github.com/bourse-dev/bourse/api"

// Tick lets time pass, and pays debts of changed members. One tick handles the one reservation or
// token that is due first. Repeat it until it yields no event.
type Tick struct {
	// Waits says that expiry pauses: only debts are paid, and what is beyond the bounds is forgotten.
	Waits bool
}

func (c Tick) decide(s *State, now Time) (Outcome, error) {
	first, some := s.due.Min()
	if !some || first.at > now || c.Waits && first.at != atOnce {
		return Outcome{}, nil
	}
	if first.token {
		return forget(Forget{Tokens: []string{first.id}}, now), nil
	}
	r := clone(s.reservations[first.id])
	switch what := s.debtOf(r); {
	case what != nothing:
		return s.payDebt(r, what, now), nil
	case r.State.Over():
		return forget(s.forgetting(r), now), nil
	case r.State == api.Releasing:
		return s.unfreed(r, now), nil
	case r.State == api.Pending:
		return s.endWaiting(r, now), nil
	case r.State == api.Held:
		return s.holdEnded(r, now), nil
	case s.Self == "" && r.Changing() != nil && now < r.EndsAt():
		r.refuse(api.ReasonNoAnswer, "")
		return changed(r, now), nil
	}
	s.recordEnd(r, "", now)
	r.State, r.Reason, r.Message = api.Releasing, api.ReasonEnded, ""
	if r.EndsAt() == r.ReclaimAt {
		r.Reason = api.ReasonReclaimed
	}
	return changed(r, now), nil
}

// unfreed ends a reservation whose provider did not report it free in time. It no longer counts
// against the consumer's caps; what the provider lists still counts at the provider. A provider
// that comes back must learn the end, so the broker keeps it until the provider ends the
// reservation by itself.
func (s *State) unfreed(r *Reservation, now Time) Outcome {
	if s.Self == "" {
		r.RememberUntil = r.EndsAt().plus(SkewGrace)
		r.Request, r.Plans, r.Tried = nil, nil, nil
	}
	return over(r, api.Released, r.Reason, notFreed, now)
}

const notFreed = "its provider did not report in time that its capacity is free"

// holdEnded decides about a hold whose time is over.
func (s *State) holdEnded(r *Reservation, now Time) Outcome {
	switch {
	case s.Self == "" && r.Assignment == "":
		return s.unsigned(r, now)
	case s.Self != r.Provider && s.Self != "":
		return over(r, api.Expired, api.ReasonNotAccepted, "no further message about it arrived", now)
	case r.AwaitsApproval() && s.Self == "":
		return s.moveOn(r, api.Tried{Provider: r.Provider, Reason: api.ReasonNotApproved, Message: notApproved}, now)
	case r.AwaitsApproval():
		return over(r, api.Failed, api.ReasonNotApproved, notApproved, now)
	case s.Self == "":
		s.recordSilence(r, now)
		return s.moveOn(r, api.Tried{Provider: r.Provider, Reason: api.ReasonNoAnswer}, now)
	default: // no commit came to the gate
		return over(r, api.Released, api.ReasonAcceptanceDropped, "the commit did not come in time", now)
	}
}

// unsigned ends a hold that its consumer did not sign in time. A request that waits goes back to its place, unless
// a person confirms it.
func (s *State) unsigned(r *Reservation, now Time) Outcome {
	const message = "the consumer did not sign in time"
	if r.Request != nil && !r.Request.Confirm && now < r.WaitUntil {
		r.Tried = append(r.Tried[:len(r.Tried):len(r.Tried)],
			api.Tried{Provider: r.Provider, Reason: api.ReasonNotConfirmed})
		if r.waits(now) {
			r.enqueue(message)
			return changed(r, now)
		}
	}
	return over(r, api.Expired, api.ReasonNotConfirmed, message, now)
}

func over(r *Reservation, state api.State, reason api.Reason, message string, now Time) Outcome {
	r.State, r.Reason, r.Message, r.Next = state, reason, message, nil
	return changed(r, now)
}

// forgetting returns what to drop with a reservation: also an offer that only it needs.
func (s *State) forgetting(r *Reservation) Forget {
	f := Forget{Reservations: []string{r.ID}}
	if spent, ok := s.spends(r); ok {
		f.Spent, f.Passed = []Spent{spent}, s.summarizeSpent()
	}
	if o := r.Offer; o != nil && s.madeFrom[o.Digest] == 1 && !s.offers[o.Digest].OnSale {
		f.Offers = []string{o.Digest}
	}
	return f
}

func forget(f Forget, now Time) Outcome { return Outcome{Events: []Event{{Time: now, Forget: &f}}} }
