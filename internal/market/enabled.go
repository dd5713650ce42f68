package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Enabled are the providers that a consumer chose. No other serves its requests. An empty list means none.
type Enabled struct {
	Providers []string `json:"providers"`
}

// maxEnabled bounds the list of one consumer.
const maxEnabled = 1000

// Enables reports whether a member's own choice permits a provider.
func (m *Member) Enables(provider string) bool {
	if m == nil || m.Enabled == nil {
		return true
	}
	_, is := slices.BinarySearch(m.Enabled.Providers, provider)
	return is
}

// Enable adds a provider to a consumer's list, or removes it. The first Enable begins the list,
// EnableAll ends it. Existing reservations stay. Errors: NotMember, Suspended; Invalid.
type Enable struct {
	Consumer, Provider string
	Enabled            bool
}

func (c Enable) decide(s *State, now Time) (Outcome, error) {
	if err := s.active(c.Consumer); err != nil {
		return Outcome{}, err
	}
	if err := ValidCluster("id", c.Provider); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Consumer]
	next := Enabled{Providers: []string{}}
	if m.Enabled != nil {
		next.Providers = slices.Clone(m.Enabled.Providers)
	}
	at, is := slices.BinarySearch(next.Providers, c.Provider)
	switch {
	case m.Enabled != nil && is == c.Enabled:
		return Outcome{Member: m}, nil
	case c.Enabled && len(next.Providers) == maxEnabled:
		return Outcome{}, api.Invalid("id", "%d providers are enabled", maxEnabled).Fix("disable one first")
	case c.Enabled:
		next.Providers = slices.Insert(next.Providers, at, c.Provider)
	case is:
		next.Providers = slices.Delete(next.Providers, at, at+1)
	}
	return s.enabling(m, &next, now), nil
}

// EnableAll drops a consumer's list: every provider may serve its requests. Errors: NotMember, Suspended.
type EnableAll struct{ Consumer string }

func (c EnableAll) decide(s *State, now Time) (Outcome, error) {
	if err := s.active(c.Consumer); err != nil {
		return Outcome{}, err
	}
	m := s.members[c.Consumer]
	if m.Enabled == nil {
		return Outcome{Member: m}, nil
	}
	return s.enabling(m, nil, now), nil
}

func (s *State) enabling(m *Member, enabled *Enabled, now Time) Outcome {
	next := *m
	next.Enabled, next.Changed = enabled, now
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}
}
