package doctor

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// Liqo looks at Liqo in this cluster, and at the way to its API server.
type Liqo struct {
	Inspection posture.Inspection
	// Sharing is the SharingPolicy in force, nil if there is none.
	Sharing func() *api.Sharing
}

// Find looks. The address of an API server that consumers reach through the network does not matter.
func (c Liqo) Find(ctx context.Context) ([]api.Problem, error) {
	inspection, policy := c.Inspection, c.Sharing()
	inspection.Lends = policy != nil
	found := inspection.Problems(ctx)
	if isBehindNetwork(policy) {
		found = slices.DeleteFunc(found, func(p api.Problem) bool { return p.Code == health.APIServerLocal.Code })
	}
	return found, nil
}

// isBehindNetwork reports whether consumers reach the API server through the network only.
func isBehindNetwork(policy *api.Sharing) bool {
	return policy != nil && policy.APIServerAccess == api.APIServerNetwork
}

// Access looks whether there is a way to an API server behind the network. It is for a cluster with Liqo.
type Access struct {
	// Reader reads from the API server.
	Reader        client.Reader
	LiqoNamespace string
	// Joins says that this cluster takes part in networks with others.
	Joins bool
	// Sharing is the SharingPolicy in force, nil if there is none.
	Sharing func() *api.Sharing
}

// Find looks.
func (c Access) Find(ctx context.Context) (found []api.Problem, err error) {
	if !isBehindNetwork(c.Sharing()) {
		return nil, nil
	}
	if !c.Joins {
		return []api.Problem{health.APIServerProxy.Of("",
			"install Liqo with networking, and start the agent with --network-gateway",
			"this cluster takes part in no network")}, nil
	}
	_, err = (&network.Network{Reader: c.Reader, LiqoNamespace: c.LiqoNamespace}).Proxy(ctx)
	if cannot, ok := errors.AsType[*api.Error](err); ok {
		return []api.Problem{health.APIServerProxy.Of("namespace "+c.LiqoNamespace, cannot.Remedy, "%s", cannot.Detail)}, nil
	}
	return nil, err
}
