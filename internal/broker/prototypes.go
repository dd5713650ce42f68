package broker

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

// Prototypes are the prototypes' interfaces, each off by default. They are in the packages of internal/compat.
type Prototypes struct {
	// Agents serves their resource agents, which their certificates name by the common name.
	Agents bool
	// Objects serves members, and such agents, through objects in the broker's own cluster. See package server/kubernetes.
	Objects bool
	// LegacyCA is a file with further CAs (PEM) whose certificates may name such agents. Empty: none.
	LegacyCA string
	// Catalog and Orchestrator are those of liqo-broker.
	Catalog, Orchestrator bool
	// DistributedCatalog serves members as that prototype's broker did. See package distributedcatalog.
	DistributedCatalog bool
	// Kubernetes is the broker's own cluster, whose ForeignClusters are in the catalog. Default: the one that it runs in, if any;
	// with Objects there must be one.
	Kubernetes *rest.Config
}

// serve adds them to a server that does not serve yet.
func (p Prototypes) serve(o Options, s *server.Server, authority *tlsid.Authority) error {
	if p.Catalog || p.Orchestrator {
		clusters, err := liqobroker.ForeignClusters(p.Kubernetes, o.Log)
		if err != nil {
			return err
		}
		liqobroker.Serve(liqobroker.Options{Server: s, Orchestrator: p.Orchestrator, ForeignClusters: clusters})
	}
	if !p.Agents && !p.Objects {
		return nil
	}
	secret, err := resourceagent.SecretOf(o.Dir, s)
	if err == nil && p.Agents {
		err = resourceagent.AdmitCommonNames(authority, p.LegacyCA)
	}
	if err != nil {
		return err
	}
	resourceagent.Serve(resourceagent.Options{Server: s, Secret: secret, Log: o.Log})
	return nil
}

// locate finds the cluster in whose objects members are served. Errors: Invalid with the flag.
func (p *Prototypes) locate() (err error) {
	if !p.Objects || p.Kubernetes != nil {
		return nil
	}
	if p.Kubernetes, err = rest.InClusterConfig(); err != nil {
		return api.Invalid("--broker-interface", "members have no objects where the broker runs in no cluster: %s", err).Fix("run it in one (config/kubernetes), or name one: --kubeconfig")
	}
	return nil
}

// serveObjects serves members through objects until ctx ends.
func (p Prototypes) serveObjects(ctx context.Context, s *server.Server) error {
	return kubernetes.Run(ctx, kubernetes.Options{Server: s, Cluster: p.Kubernetes, Log: s.Log})
}

// wrap puts before what members call what clients of the Distributed Catalog call.
func (p Prototypes) wrap(ctx context.Context, s *server.Server) http.Handler {
	members := s.Members()
	if p.Objects && !p.Agents {
		members = resourceagent.ByObjectsOnly(s, members)
	}
	if !p.DistributedCatalog {
		return members
	}
	s.Log.Info("the broker also answers clients of the Distributed Catalog", "url", s.URL)
	return distributedcatalog.Broker(ctx, members, distributedcatalog.BrokerOptions{
		URL: s.URL, Server: s, Log: s.Log,
	})
}
