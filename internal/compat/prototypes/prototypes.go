// Package prototypes serves the interfaces of the prototypes, which an operator enables by flags of
// the broker.
package prototypes

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/compat/liqobroker"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/kubernetes"
)

// Options say which interfaces a broker serves. The zero value serves none.
type Options struct {
	// Agents serves resource agents. The common name of its certificate names an agent's cluster.
	Agents bool
	// Objects serves members, and resource agents, through objects in the broker's own cluster.
	Objects bool
	// LegacyCA is a file with further CAs (PEM) whose certificates may name resource agents. Empty: none.
	LegacyCA string
	// Catalog, Orchestrator and Aggregator are the interfaces of liqo-broker.
	Catalog, Orchestrator, Aggregator bool
	// DistributedCatalog serves members as the broker of the Distributed Catalog did.
	DistributedCatalog bool
	// Kubernetes is the broker's own cluster. Its ForeignClusters are in the catalog. Default: the
	// cluster that the broker runs in, if any. Objects needs one.
	Kubernetes *rest.Config
}

// Serve adds the routes to a server that does not serve yet. dir is the folder of the broker.
// Errors: Invalid with the flag.
func (o Options) Serve(dir string, s *server.Server, authority *tlsid.Authority) error {
	if o.Catalog || o.Orchestrator || o.Aggregator {
		clusters, err := liqobroker.ForeignClusters(o.Kubernetes, s.Log)
		if err != nil {
			return err
		}
		liqobroker.Serve(liqobroker.Options{Server: s, Orchestrator: o.Orchestrator, Aggregator: o.Aggregator,
			ForeignClusters: clusters})
	}
	if !o.Agents && !o.Objects {
		return nil
	}
	secret, err := resourceagent.SecretOf(dir, s)
	if err == nil && o.Agents {
		err = resourceagent.AdmitCommonNames(authority, o.LegacyCA)
	}
	if err != nil {
		return err
	}
	resourceagent.Serve(resourceagent.Options{Server: s, Secret: secret, Log: s.Log})
	return nil
}

// Locate finds the cluster with the objects of members, if Objects needs it. Errors: Invalid with the flag.
func (o *Options) Locate() (err error) {
	if !o.Objects || o.Kubernetes != nil {
		return nil
	}
	if o.Kubernetes, err = rest.InClusterConfig(); err != nil {
		return api.Invalid("--broker-interface", "members have no objects where the broker runs in no cluster: %s", err).
			Fix("run it in one (config/kubernetes), or name one: --kubeconfig")
	}
	return nil
}

// Run serves members through objects until ctx ends. It returns at once without Objects.
func (o Options) Run(ctx context.Context, s *server.Server) error {
	if !o.Objects {
		return nil
	}
	return kubernetes.Run(ctx, kubernetes.Options{Server: s, Cluster: o.Kubernetes, Log: s.Log})
}

// Members is the handler for members, with the routes of the Distributed Catalog before it, and
// without those of resource agents if they use objects only.
func (o Options) Members(ctx context.Context, s *server.Server) http.Handler {
	members := s.Members()
	if o.Objects && !o.Agents {
		members = resourceagent.ByObjectsOnly(s, members)
	}
	if !o.DistributedCatalog {
		return members
	}
	s.Log.Info("the broker also answers clients of the Distributed Catalog", "url", s.URL)
	return distributedcatalog.Broker(ctx, members, distributedcatalog.BrokerOptions{URL: s.URL, Server: s, Log: s.Log})
}
