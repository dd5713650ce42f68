package market

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// Caps are the most that one consumer may have pending, held and reserved together.
type Caps struct {
	// Reservations is how many; 0: no bound.
	Reservations int64 `json:"reservations,omitempty"`
	// Resources are amounts; a resource that is not named has no bound.
	Resources Amounts `json:"resources,omitempty"`
}

// CapsOf takes in caps. Errors: Invalid with the field, below parent.
func CapsOf(parent string, c api.Caps) (Caps, error) {
	if c.Reservations < 0 {
		return Caps{}, api.Invalid(parent+"reservations", "%d is negative", c.Reservations).Fix("give 0 for no bound of its own")
	}
	most, err := Have(parent+"resources", c.Resources)
	return Caps{Reservations: c.Reservations, Resources: most}, err
}

// taken is what a consumer has pending, held and reserved: all that counts.
type taken struct {
	reservations int64
	size         Amounts
}

// take moves what a consumer has, from what a reservation was to what it is; either may be nil.
func (s *State) take(old, r *Reservation) {
	for _, x := range []struct {
		r    *Reservation
		sign int64
	}{{old, -1}, {r, 1}} {
		if x.r == nil || !x.r.State.Counts() {
			continue
		}
		t := s.taken[x.r.Consumer]
		if t == nil {
			t = &taken{}
			s.taken[x.r.Consumer] = t
		}
		t.reservations += x.sign
		if x.sign > 0 {
			t.size = t.size.Swap(nil, x.r.Takes())
		} else {
			t.size = t.size.Swap(x.r.Takes(), nil)
		}
		if t.reservations == 0 {
			delete(s.taken, x.r.Consumer)
		}
	}
}

// capped says why a consumer may not have so many reservations more, and so much more, or nil. What the
// operator says of the consumer itself goes before what holds for all.
func (s *State) capped(consumer string, all Caps, more int64, size Amounts) error {
	caps := all
	if m := s.members[consumer]; m != nil && m.Caps != nil {
		caps = caps.but(*m.Caps)
	}
	has := s.taken[consumer]
	if has == nil {
		has = &taken{}
	}
	if more > 0 && caps.Reservations > 0 && has.reservations+more > caps.Reservations {
		return reached(consumer, "reservations", caps.Reservations, has.reservations, more)
	}
	different := len(has.size)
	for _, asked := range size {
		if !has.size.names(asked.Resource) {
			different++
		}
	}
	if different > maxTaken {
		return api.Errorf(api.CodeCapReached, "cluster %s may have %d different resources pending, held and reserved, and asks for more", consumer, maxTaken).
			Fix("release something")
	}
	for _, asked := range size {
		most := int64(maxAmount)
		if caps.Resources.names(asked.Resource) {
			most = caps.Resources.Of(asked.Resource)
		}
		if had := has.size.Of(asked.Resource); asked.Value > 0 && had > most-asked.Value {
			return reached(consumer, asked.Resource, most, had, asked.Value)
		}
	}
	return nil
}

// maxTaken bounds what is kept of a consumer, whatever names others invent.
const maxTaken = 4 * maxResources

// but replaces what the other ones say.
func (c Caps) but(own Caps) Caps {
	if own.Reservations > 0 {
		c.Reservations = own.Reservations
	}
	for _, a := range c.Resources {
		if !own.Resources.names(a.Resource) {
			own.Resources = own.Resources.Plus(Amounts{a})
		}
	}
	c.Resources = own.Resources
	return c
}

func reached(consumer, what string, most, has, asked int64) error {
	write := func(v int64) string {
		q := Amounts{{what, v}}.Resources()[corev1.ResourceName(what)]
		return q.String()
	}
	return api.Errorf(api.CodeCapReached, "cluster %s may have %s %s pending, held and reserved: it has %s, and asks for %s more",
		consumer, write(most), what, write(has), write(asked)).Fix("release something, or ask the operator for more")
}

// SetCaps is an operator's word about how much one member may have; nil: what all may. What it has already stays.
// Errors: NotFound.
type SetCaps struct {
	Cluster string
	Caps    *Caps
}

func (c SetCaps) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	if m == nil || m.State == api.MemberRemoved {
		return Outcome{}, api.Errorf(api.CodeNotFound, "no member %.80q", c.Cluster)
	}
	if m.Caps == c.Caps || m.Caps != nil && c.Caps != nil && m.Caps.Reservations == c.Caps.Reservations && slices.Equal(m.Caps.Resources, c.Caps.Resources) {
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Caps, next.Changed = c.Caps, now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}
