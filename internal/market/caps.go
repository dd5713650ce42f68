package market

import (
	"cmp"
	"reflect"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Caps bound what one consumer has pending, held and reserved together.
type Caps struct {
	// Reservations is how many; 0: no bound.
	Reservations int64 `json:"reservations,omitempty"`
	// Pending is how many of them may wait for capacity at the same time; 0: no bound.
	Pending int64 `json:"pending,omitempty"`
	// Priority is the highest that its requests may have; 0: no bound.
	Priority int32 `json:"priority,omitempty"`
	// Resources are amounts. Other resources have no bound.
	Resources amounts.List `json:"resources,omitempty"`
	// Bytes is about how much memory they may take; 0: no bound. It is the same for all consumers.
	Bytes int64 `json:"-"`
}

// CapsOf converts caps. Errors: Invalid at the field, below parent.
func CapsOf(parent string, c api.Caps) (Caps, error) {
	if c.Reservations < 0 {
		return Caps{}, api.Invalid(parent+"reservations", "%d is negative", c.Reservations).
			Fix("give 0 for no bound of its own")
	}
	if c.Pending < 0 {
		return Caps{}, api.Invalid(parent+"pending", "%d is negative", c.Pending).Fix("give 0 for no bound of its own")
	}
	if c.Priority < -MaxPriority || c.Priority > MaxPriority {
		return Caps{}, api.Invalid(parent+"priority", "%d is no priority", c.Priority).
			Fix("give -%d to %[1]d, or 0 for no bound of its own", MaxPriority)
	}
	most, err := amounts.ParseCapacity(parent+"resources", c.Resources)
	return Caps{Reservations: c.Reservations, Pending: c.Pending, Priority: c.Priority, Resources: most}, err
}

// None reports whether there is no bound.
func (c Caps) None() bool {
	return c.Reservations == 0 && c.Pending == 0 && c.Priority == 0 && len(c.Resources) == 0
}

// checkBytes reports why a consumer may not take that many more bytes of memory, or nil.
func (s *State) checkBytes(consumer string, all Caps, more int64) error {
	p := s.consumed(consumer)
	has := p.bytes[borrowed] + p.bytes[unheard]
	if all.Bytes == 0 || has+more <= all.Bytes {
		return nil
	}
	return api.Errorf(api.CodeCapReached,
		"the requests of cluster %s that are pending, held, reserved, or released without the provider's answer, "+
			"take %d KiB; %d KiB more are asked for, and the cluster may have %d KiB",
		consumer, has>>10, (more+1023)>>10, all.Bytes>>10).
		Fix("release something, make smaller requests, or ask the operator for a larger --max-bytes, or to remove " +
			"providers that are gone")
}

// checkCaps reports why a consumer may not have that many more reservations of that total size, or nil. The
// consumer's own caps replace those for all.
func (s *State) checkCaps(consumer string, all Caps, more int64, size amounts.List) error {
	caps, has := s.capsOf(consumer, all)
	if more > 0 && caps.Reservations > 0 && has.count[borrowed]+more > caps.Reservations {
		return reached(consumer, "reservations", caps.Reservations, has.count[borrowed], more)
	}
	if len(has.size)+len(size) > maxTaken && len(has.size.Plus(size)) > maxTaken {
		return api.Errorf(api.CodeCapReached,
			"cluster %s may have %d different resources pending, held and reserved, and asks for more",
			consumer, maxTaken).Fix("release something")
	}
	for _, asked := range size {
		most := int64(amounts.Max)
		if caps.Resources.Has(asked.Resource) {
			most = caps.Resources.Of(asked.Resource)
		}
		if had := has.size.Of(asked.Resource); asked.Value > 0 && had > most-asked.Value {
			return reached(consumer, asked.Resource, most, had, asked.Value)
		}
	}
	return nil
}

// capsOf returns the caps of a consumer, and its account. What is pending counts: it will take
// capacity without another request.
func (s *State) capsOf(consumer string, all Caps) (Caps, *party) {
	if m := s.members[consumer]; m != nil && m.Caps != nil {
		all = all.withOwn(*m.Caps)
	}
	return all, s.consumed(consumer)
}

// checkWaiting reports why a request may not have its priority, or may not wait, or nil. pends: it
// would wait.
func (s *State) checkWaiting(c *Hold, pends bool) error {
	if !pends && (c.Request == nil || c.Request.Priority == 0) {
		return nil
	}
	caps, has := s.capsOf(c.Consumer, c.Caps)
	if asked := c.Request.Priority; caps.Priority != 0 && asked > caps.Priority {
		return api.Errorf(api.CodeCapReached, "requests of cluster %s may have priority %d at most, and this one has %d",
			c.Consumer, caps.Priority, asked).At("request.priority").Fix("ask with less, or ask the operator for more")
	}
	if pends && caps.Pending > 0 && has.pending >= caps.Pending {
		return api.Errorf(api.CodeCapReached, "at most %d requests of cluster %s may wait, and %d do", caps.Pending,
			c.Consumer, has.pending).
			At("request.wait").Fix("release one that waits, ask for less so that it need not wait, or ask the operator for more")
	}
	return nil
}

// maxTaken bounds the number of resources in the account of a consumer.
const maxTaken = 4 * amounts.MaxResources

// withOwn returns c with the bounds that own has.
func (c Caps) withOwn(own Caps) Caps {
	c.Reservations = cmp.Or(own.Reservations, c.Reservations)
	c.Pending = cmp.Or(own.Pending, c.Pending)
	c.Priority = cmp.Or(own.Priority, c.Priority)
	for _, a := range c.Resources {
		if !own.Resources.Has(a.Resource) {
			own.Resources = own.Resources.Plus(amounts.List{a})
		}
	}
	c.Resources = own.Resources
	return c
}

func reached(consumer, what string, most, has, asked int64) error {
	write := func(v int64) string {
		q := amounts.Amount{Resource: what, Value: v}.Quantity()
		return q.String()
	}
	return api.Errorf(api.CodeCapReached,
		"cluster %s may have %s %s pending, held and reserved: it has %s, and asks for %s more",
		consumer, write(most), what, write(has), write(asked)).Fix("release something, or ask the operator for more")
}

// SetCaps sets the caps of one member. Nil: those of all members. Existing reservations stay.
// Errors: NotFound.
type SetCaps struct {
	Cluster string
	Caps    *Caps
}

func (c SetCaps) decide(s *State, now Time) (Outcome, error) {
	m := s.members[c.Cluster]
	if m == nil || m.State == api.MemberRemoved {
		return Outcome{}, api.Errorf(api.CodeNotFound, "no member %.80q", c.Cluster).FixBy("see", "bourse", "broker", "members")
	}
	if reflect.DeepEqual(m.Caps, c.Caps) {
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Caps, next.Changed = c.Caps, now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}
