package market

import "github.com/bourse-dev/bourse/api"

// Suspend records that the agent's admin lends a consumer nothing more. Existing reservations stay. An empty
// Why ends the suspension. Errors: Invalid.
type Suspend struct{ Cluster, Why string }

func (c Suspend) decide(s *State, now Time) (Outcome, error) {
	if err := ValidCluster("cluster", c.Cluster); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Cluster]
	switch {
	case m == nil && c.Why == "", m != nil && m.Suspended == c.Why:
		return Outcome{Member: m}, nil
	case m == nil:
		m = &Member{Cluster: c.Cluster, State: api.MemberActive, Joined: now}
	}
	next := *m
	next.Suspended, next.Changed = c.Why, now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// checkSuspension reports whether this cluster's admin suspended a consumer. Errors: Suspended.
func (s *State) checkSuspension(consumer string) error {
	if m := s.members[consumer]; m != nil && m.Suspended != "" {
		return api.Errorf(api.CodeSuspended, "the admin of %s has suspended %s: %s", s.Self, consumer, m.Suspended)
	}
	return nil
}
