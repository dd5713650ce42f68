package market

import "github.com/bourse-dev/bourse/api"

// Tick is the passing of time. One tick decides about the one reservation or token
// that is due first; repeat it until it yields no event.
type Tick struct{}

func (Tick) decide(s *State, now Time) (Outcome, error) {
	r := s.soonest(now)
	if r == nil {
		return s.forgetToken(now), nil
	}
	if r.State.Over() {
		return Outcome{Events: []Event{{Time: now, Forget: &Forget{Reservations: []string{r.ID}}}}}, nil
	}
	r = clone(r)
	if r.State == api.Held {
		return s.holdEnded(r, now), nil
	}
	r.State, r.Reason, r.Message = api.Releasing, api.ReasonEnded, ""
	return changed(r, now), nil
}

// holdEnded is what follows when the time of a hold is over.
func (s *State) holdEnded(r *Reservation, now Time) Outcome {
	switch {
	case s.Self == "" && r.Assignment == "":
		return over(r, api.Expired, api.ReasonNotConfirmed, "the consumer did not sign in time", now)
	case s.Self == "":
		return s.moveOn(r, api.Tried{Provider: r.Provider, Reason: api.ReasonNoAnswer}, now)
	case s.Self == r.Provider: // the gate was never told that its acceptance was committed
		return over(r, api.Released, api.ReasonAcceptanceDropped, "the commit did not come in time", now)
	default:
		return over(r, api.Expired, api.ReasonNotAccepted, "nothing was heard of it until its end", now)
	}
}

func over(r *Reservation, state api.State, reason api.Reason, message string, now Time) Outcome {
	r.State, r.Reason, r.Message, r.Next = state, reason, message, nil
	return changed(r, now)
}

// forgetToken drops the first token that has been useless for the time of retention.
func (s *State) forgetToken(now Time) Outcome {
	first := ""
	for id, t := range s.tokens {
		if now > t.Expires.plus(Retention) && (first == "" || id < first) {
			first = id
		}
	}
	if first == "" {
		return Outcome{}
	}
	return Outcome{Events: []Event{{Time: now, Forget: &Forget{Tokens: []string{first}}}}}
}
