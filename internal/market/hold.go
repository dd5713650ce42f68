package market

import (
	"time"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Hold places a request on the first candidate that still has the capacity. Without candidates, or
// if the plan is sold out, the request is Pending if it waits, else Rejected: that makes no event
// (see [State.Remember]). Errors: KeyReused if the key came with another request; Insufficient if
// no candidate has the capacity any more: decide again from a newer view; CapReached.
type Hold struct {
	// ID is new and random. Key and Digest recognize a repeat; Key may be empty.
	ID, Key, Digest string
	Consumer        string
	Request         *api.Request
	// Pool, Size and Duration are those of the request, with defaults.
	Pool     string
	Size     amounts.List
	Duration time.Duration
	// Candidates are providers, best first.
	Candidates []string
	// Sale is the purchased plan. The seller is then the only candidate. Nil: no purchase.
	Sale *api.Sale
	// Plans are, by provider, the plans of the candidates that sell instead of lending; nil: all lend.
	Plans     map[string]*api.Sale
	Decision  *api.Decision
	explained Why // Decision, encoded by Prepare
	// Premature turns a rejection into Unavailable: the broker has just started.
	Premature bool
	// Caps bound every consumer.
	Caps Caps
}

// answerHold answers a hold that needs no placement: a refusal, or a repeat. done is false if the
// hold must be placed.
func (s *State) answerHold(c *Hold, now Time) (out Outcome, err error, done bool) {
	if err := s.active(c.Consumer); err != nil {
		return Outcome{}, err, true
	}
	if r := s.ByKey(c.Consumer, c.Key); r != nil {
		if r.Digest != c.Digest {
			return Outcome{}, keyReused(c.Key, r.ID), true
		}
		return s.repeated(c, r), nil, true
	}
	if !utf8.ValidString(c.Key) { // a journal could not give it back
		return Outcome{}, api.Invalid("Idempotency-Key", "%.80q is not UTF-8", c.Key).Fix("use printable characters"), true
	}
	return Outcome{}, nil, false
}

// JustStarted returns the error for what a broker cannot decide before every cluster has reported.
func JustStarted() error {
	return api.Errorf(api.CodeUnavailable, "this broker has just started, and not every cluster has reported yet").
		Fix("try again")
}

func keyReused(key, id string) error {
	return api.Errorf(api.CodeKeyReused, "key %.80q made reservation %s from another request", key, id).
		At("Idempotency-Key").Fix("use a new key for a new request")
}

func (c *Hold) decide(s *State, now Time) (Outcome, error) {
	if out, err, done := s.answerHold(c, now); done {
		return out, err
	}
	// the same call again, after the journal refused its batch
	if r := s.rejected.byID[c.ID]; r != nil && r.Consumer == c.Consumer {
		return s.repeated(c, r), nil
	}
	if s.Reservation(c.ID) != nil {
		return Outcome{}, api.Errorf(api.CodeConflict, "reservation %s exists", c.ID)
	}
	wait := c.wait()
	if len(c.Candidates) == 0 && c.Premature && wait == 0 {
		return Outcome{}, JustStarted()
	}
	soldOut := false
	if c.Sale != nil {
		if err := s.checkStock(c.Sale, c.Sale.Units, 0, now); err != nil {
			if soldOut = wait > 0 && api.CodeOf(err) == api.CodeInsufficient; !soldOut {
				return Outcome{}, err
			}
		}
	}
	pends := wait > 0 && (len(c.Candidates) == 0 || soldOut)
	if err := s.checkCaps(c.Consumer, c.Caps, 1, c.largestSize(s)); err != nil {
		return Outcome{}, err
	}
	if err := s.checkWaiting(c, pends); err != nil {
		return Outcome{}, err
	}
	r, decision := c.newReservation(), *c.Decision
	r.Created, r.Deadline, r.Until = now, now.plus(DecideTime), now.plus(c.Duration)
	if c.Sale != nil {
		r.From = now / 1000 * 1000
	}
	if wait > 0 {
		r.WaitUntil = now.plus(wait)
	}
	if pends {
		r.enqueue("")
		decision.Chosen, decision.Sequence = "", api.Sequence{}
	} else if len(c.Candidates) == 0 {
		return s.reject(r, &decision, c.explain(&decision), now), nil
	} else if r = s.place(r, c.Candidates, now); r == nil {
		return Outcome{}, noneFits(c.Candidates)
	} else {
		decision.Chosen, decision.Sequence = r.Provider, s.providers[r.Provider].measured.Sequence
	}
	why := c.explain(&decision)
	if err := s.checkBytes(c.Consumer, c.Caps, footprint(r)+int64(len(why))); err != nil {
		return Outcome{}, err
	}
	out := changed(r, now)
	out.Events[0].Reservation.Why, out.Decision = why, &decision
	return out, nil
}

// Prepare encodes the explanation of a hold. The caller's goroutine calls it, so that the market's owner need
// not encode it.
func Prepare(c Command) {
	if h, ok := c.(*Hold); ok {
		h.explained = Explain(h.Decision)
	}
}

// explain encodes d, unless Prepare has. d differs from c.Decision if the first candidate is full, or has
// advertised since.
func (c *Hold) explain(d *api.Decision) Why {
	if c.explained != nil && d.Chosen == c.Decision.Chosen && d.Sequence == c.Decision.Sequence {
		return c.explained
	}
	return Explain(d)
}

// wait returns how long the request waits; 0: it does not.
func (c *Hold) wait() time.Duration {
	if c.Request == nil || c.Request.Wait == nil {
		return 0
	}
	return c.Request.Wait.Duration
}

// newReservation returns the reservation that the hold asks for, without provider and times.
func (c *Hold) newReservation() *Reservation {
	r := &Reservation{
		ID: c.ID, Key: c.Key, Digest: c.Digest, Consumer: c.Consumer, Request: c.Request,
		Pool: c.Pool, Size: c.Size, Sale: c.Sale, Plans: c.Plans,
	}
	if c.Request != nil {
		r.Relend, r.RelendKey = c.Request.Relend, c.Request.RelendKey
	}
	return r
}

func noneFits(candidates []string) error {
	return api.Errorf(api.CodeInsufficient,
		"none of the %d best candidates has the capacity any more", len(candidates))
}

// place returns r as a hold on the first candidate that can take it, or nil.
func (s *State) place(r *Reservation, candidates []string, now Time) *Reservation {
	for i, provider := range candidates {
		if provider == r.Consumer || s.active(provider) != nil || !s.members[r.Consumer].Enables(provider) {
			continue
		}
		there := s.atProvider(provider, r, now)
		if there != nil && s.checkCapacity(provider, there, now) == nil && s.checkPodShape(provider, r.Pool, r) == nil {
			s.placeHold(there, provider, candidates[i+1:], now)
			return there
		}
	}
	return nil
}

// placeHold makes r a hold on a provider. The consumer must sign it again.
func (s *State) placeHold(r *Reservation, provider string, next []string, now Time) {
	r.State, r.Reason, r.Message = api.Held, "", ""
	r.Provider, r.Next = provider, next
	r.Generation++
	r.Assignment, r.Acceptance = "", ""
	if r.ApproveBy = s.approveBy(r, now); r.ApproveBy > r.Deadline {
		r.Deadline = r.ApproveBy
	}
	r.HeldUntil = min(now.plus(HoldTime), r.Deadline)
}

// moveOn moves a hold to the next candidate with the capacity, before its deadline. Otherwise it waits again,
// or fails.
func (s *State) moveOn(r *Reservation, tried api.Tried, now Time) Outcome {
	r.Tried = append(r.Tried[:len(r.Tried):len(r.Tried)], tried)
	if now < r.Deadline && now < r.Until {
		if there := s.place(r, s.candidatesApart(r), now); there != nil {
			return changed(there, now)
		}
	}
	if r.waits(now) {
		r.enqueue(lastWord(tried))
		return changed(r, now)
	}
	return over(r, api.Failed, api.ReasonNotAccepted, "no provider accepted: "+lastWord(tried), now)
}

func lastWord(t api.Tried) string {
	if t.Message == "" {
		return t.Provider + ": " + string(t.Reason)
	}
	return t.Provider + ": " + string(t.Reason) + ": " + api.WithoutCode(t.Message)
}
