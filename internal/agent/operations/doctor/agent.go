package doctor

import (
	"cmp"
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// Agent looks whether this agent is the one that the cluster had before.
type Agent struct {
	Record interface {
		// Other returns the agent that the object Agent records, if that is not this one.
		Other() (*api.RecordedAgent, error)
	}
}

// Find implements Check.Find.
func (c Agent) Find(context.Context) ([]api.Problem, error) {
	other, err := c.Record.Other()
	if err != nil || other == nil {
		return nil, err
	}
	return []api.Problem{health.IdentityReplaced.Of("Agent "+api.AgentName,
		"restore the Secret bourse-identity and the Ledgers from a backup; if they are lost for good: kubectl delete "+
			"agents.bourse.dev "+api.AgentName,
		"it records an agent in namespace %s with the key %s and the Ledger %s", cmp.Or(other.Namespace, "?"), other.Fingerprint,
		other.Ledger)}, nil
}
