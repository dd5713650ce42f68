package market

import (
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// Enabled are the providers that a consumer chose among all: its requests are served by no other. An empty list is none.
type Enabled struct {
	Providers []string `json:"providers"`
}

// maxEnabled bounds what is kept of one consumer.
const maxEnabled = 1000

// Enables says whether a member's requests may be served by a provider, as far as the member itself chose.
func (m *Member) Enables(provider string) bool {
	if m == nil || m.Enabled == nil {
		return true
	}
	_, is := slices.BinarySearch(m.Enabled.Providers, provider)
	return is
}

// Enable lets a consumer's requests be served by a provider, or no longer. The first one begins the consumer's list, with
// nobody else in it; EnableAll ends it. What is reserved stays so. Errors: NotMember and the like; Invalid.
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

// EnableAll forgets what a consumer chose: every provider may serve its requests again. Errors: NotMember and the like.
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
