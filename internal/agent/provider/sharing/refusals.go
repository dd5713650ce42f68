package sharing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
)

// Refusals are why brokers do not take what this cluster advertises, by the name of the broker. The cluster's own
// connector has the name of the cluster.
type Refusals map[string]error

// refusals collects the refusals of one round of advertisements. Several goroutines may use it.
type refusals struct {
	mu     sync.Mutex
	latest Refusals
}

// note notes what a broker answered to a card or a measurement. One that could not be asked keeps what it said
// before.
func (s *refusals) note(via string, answers ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := session.BrokerName(via)
	for _, err := range answers {
		if isRefusal(err) {
			if s.latest == nil {
				s.latest = Refusals{}
			}
			s.latest[name] = err
			return
		}
	}
	for _, err := range answers {
		if err != nil {
			return
		}
	}
	delete(s.latest, name)
}

// keepOnly forgets what other brokers than these said, and returns what is left.
func (s *refusals) keepOnly(names []string) Refusals {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.latest, func(name string, _ error) bool { return !slices.Contains(names, name) })
	return maps.Clone(s.latest)
}

// isRefusal reports whether an answer is about what was sent, and comes again for the same. The others are about the
// connection or the membership, which the Broker shows, or pass by themselves.
func isRefusal(err error) bool {
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeTooManyRequests, api.CodeInternal, api.CodeStaleAdvertisement, api.CodeConflict,
		api.CodeUnauthenticated, api.CodeNotMember, api.CodeSuspended:
		return false
	}
	return err != nil
}

// equal reports whether two rounds were refused alike.
func (r Refusals) equal(other Refusals) bool {
	return maps.EqualFunc(r, other, func(a, b error) bool { return a.Error() == b.Error() })
}

// show makes a condition Ready say what brokers refuse.
func (r Refusals) show(ready *metav1.Condition) {
	var sentences []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		ready.Status, ready.Reason = metav1.ConditionFalse, string(api.CodeOf(r[name]))
		sentences = append(sentences, fmt.Sprintf("broker %s refuses what it shows: %s", name, r[name]))
	}
	if sentences != nil {
		ready.Message = "in force here; " + strings.Join(sentences, "; ")
	}
}
