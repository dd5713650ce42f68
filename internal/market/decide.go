package market

import (
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Command asks for a change. It holds everything that its decision needs: signatures, certificates and CEL
// expressions were checked before.
type Command interface {
	decide(s *State, now Time) (Outcome, error)
}

// Outcome is the result of a command: its events, and the new record of its subject. No events:
// nothing had to change.
type Outcome struct {
	// Operators says which certificates of operators are valid.
	Operators   *Operators
	Events      []Event
	Reservation *Reservation
	Decision    *api.Decision
	// Rejected is a request that no cluster can serve, for [State.Remember]. Nil: the command was
	// not rejected.
	Rejected *Reservation
	Member   *Member
	Token    *Token
	Offer    *Offer
}

// Decide decides a command. It does not change the state.
func Decide(s *State, c Command, now Time) (Outcome, error) {
	out, err := c.decide(s, now)
	if s.Self == "" {
		s.failGroup(&out, now)
	}
	return out, err
}

// changed returns the outcome with r as the new record of its reservation.
func changed(r *Reservation, now Time) Outcome {
	r.Changed = now
	if r.State == api.Releasing && r.Ended == 0 {
		r.Ended = now
	}
	r.settle()
	return Outcome{Reservation: r, Events: []Event{{Time: now, Reservation: &ReservationEvent{Reservation: r}}}}
}

// unchanged returns the outcome of a repeated command.
func unchanged(r *Reservation) (Outcome, error) { return Outcome{Reservation: r}, nil }

// find returns a copy of the reservation if the caller is a party. Errors: NotFound, also for others.
func (s *State) find(id, caller string) (*Reservation, error) {
	r := s.Reservation(id)
	if r == nil || !r.Concerns(caller) {
		return nil, api.Errorf(api.CodeNotFound, "your cluster has no reservation %.80q", id)
	}
	return clone(r), nil
}

func clone(r *Reservation) *Reservation {
	c := *r
	return &c
}

// checkCapacity reports why a reservation does not fit a provider now, or nil. It also checks the
// stock of its plan. The broker calls it before a hold, the gate before an acceptance.
func (s *State) checkCapacity(provider string, r *Reservation, now Time) error {
	if err := s.checkStock(r.Sale, r.Units(), 0, now); err != nil {
		return err
	}
	if err := s.checkDedicated(provider, r.Pool, r.Consumer, r.Sale); err != nil {
		return err
	}
	return s.checkResize(nil, provider, r, r.Size, now)
}

// checkResize is checkCapacity for a reservation that already holds has and asks for size instead.
func (s *State) checkResize(has amounts.List, provider string, r *Reservation, size amounts.List, now Time) error {
	p := s.providers[provider]
	if p == nil || p.measured == nil || p.measured.Terms == nil || !p.alive(now) {
		return api.Errorf(api.CodeInsufficient, "cluster %s advertises nothing now", provider)
	}
	b := p.pools[r.Pool]
	if b == nil {
		return api.Errorf(api.CodeInsufficient, "cluster %s has no pool %q", provider, r.Pool)
	}
	var already amounts.List
	if len(p.measured.Terms.MaxPerConsumer) > 0 {
		if a := b.accounts[r.Consumer]; a != nil {
			already = a.total().Minus(has)
		}
	}
	if why := p.measured.Terms.Refuses(size, already); why != "" {
		return api.Errorf(api.CodeForbidden, "cluster %s: %s", provider, why)
	}
	if len(has) > 0 {
		size = size.Beyond(has)
	}
	if name, missing := b.findShortage(r.Consumer, size, r.Sale != nil); missing > 0 {
		short := amounts.Amount{Resource: name, Value: missing}
		return api.Errorf(api.CodeInsufficient, "cluster %s is %s %s short", provider, short.Text(), name)
	}
	return nil
}

// Why is an encoded decision. Each reservation has one and few are read again: bytes cost the
// garbage collector nothing. It is immutable. Nil: there is none.
type Why json.RawMessage

// Explain encodes a decision.
func Explain(d *api.Decision) Why {
	why, _ := payload.Marshal(d) // a decision always encodes
	return why
}

// Decision decodes the decision; nil: there is none.
func (y Why) Decision() *api.Decision {
	d := &api.Decision{}
	if y == nil || payload.Unmarshal(y, d) != nil {
		return nil
	}
	return d
}

// MarshalJSON and UnmarshalJSON keep the JSON as it is.
func (y Why) MarshalJSON() ([]byte, error) { return json.RawMessage(y).MarshalJSON() }

func (y *Why) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(y).UnmarshalJSON(data) }
