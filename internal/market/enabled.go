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
	_, ok := slices.BinarySearch(m.Enabled.Providers, provider)
	return ok
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
	i, listed := slices.BinarySearch(next.Providers, c.Provider)
	switch {
	case m.Enabled != nil && listed == c.Enabled:
		return Outcome{Member: m}, nil
	case c.Enabled && len(next.Providers) == maxEnabled:
		return Outcome{}, api.Invalid("id", "%d providers are enabled", maxEnabled).Fix("disable one first")
	case c.Enabled:
		next.Providers = slices.Insert(next.Providers, i, c.Provider)
	case listed:
		next.Providers = slices.Delete(next.Providers, i, i+1)
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

// Choice is which providers a cluster chose at one of its brokers, as its agent keeps it.
type Choice struct {
	// Via is the route to the broker.
	Via string `json:"via"`
	// Providers are sorted.
	Providers []string `json:"providers"`
}

// maxChoices bounds the choices of one cluster. The oldest is forgotten.
const maxChoices = 100

// Chose reports whether a cluster's choices permit a provider. Those at the brokers to which counts is true are
// taken together: one that names the provider permits it. Without any choice, all providers are permitted.
func (m *Member) Chose(provider string, counts func(via string) bool) bool {
	chose := false
	if m != nil {
		for _, c := range m.Choices {
			if !counts(c.Via) {
				continue
			}
			chose = true
			if _, ok := slices.BinarySearch(c.Providers, provider); ok {
				return true
			}
		}
	}
	return !chose
}

// Choose records, in an agent, which providers its cluster chose at one of its brokers; nil: all may serve it.
// Errors: Invalid.
type Choose struct {
	Consumer string
	// Via is the route to the broker.
	Via       string
	Providers *[]string
}

func (c Choose) decide(s *State, now Time) (Outcome, error) {
	m := s.memberOrNew(c.Consumer, now)
	i := slices.IndexFunc(m.Choices, func(old Choice) bool { return old.Via == c.Via })
	if c.Providers == nil && i < 0 {
		return Outcome{Member: m}, nil
	}
	next := *m
	next.Choices, next.Changed = slices.Clone(m.Choices), now
	if i >= 0 {
		next.Choices = slices.Delete(next.Choices, i, i+1)
	}
	if c.Providers != nil {
		chosen, err := c.read()
		if err != nil {
			return Outcome{}, err
		}
		if i >= 0 && slices.Equal(m.Choices[i].Providers, chosen.Providers) {
			return Outcome{Member: m}, nil
		}
		next.Choices = append(next.Choices[max(0, len(next.Choices)+1-maxChoices):], chosen)
	}
	return Outcome{Member: &next, Events: []Event{{Time: now, Member: &next}}}, nil
}

// read returns the choice, checked and sorted.
func (c Choose) read() (Choice, error) {
	if len(*c.Providers) > maxEnabled {
		return Choice{}, api.Invalid("providers", "%d providers are chosen", len(*c.Providers)).
			Fix("choose at most %d", maxEnabled)
	}
	chosen := Choice{Via: c.Via, Providers: append([]string{}, *c.Providers...)}
	slices.Sort(chosen.Providers)
	for _, provider := range chosen.Providers {
		if err := ValidCluster("providers", provider); err != nil {
			return Choice{}, err
		}
	}
	return chosen, nil
}
