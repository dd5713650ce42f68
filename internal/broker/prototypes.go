package broker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/compat"
	"github.com/bourse-dev/bourse/internal/server/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/server/kubernetes"
)

// Prototypes are the prototypes' interfaces, each off by default. The first ones are in package compat.
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

// legacyFile, beside the CA, is what the keys of members are derived from that have none.
const legacyFile = "legacy.key"

// serve adds them to a server that does not serve yet.
func (p Prototypes) serve(o Options, s *server.Server, authority *tlsid.Authority) error {
	agents := p.Agents || p.Objects
	if !agents && !p.Catalog && !p.Orchestrator {
		return nil
	}
	options := compat.Options{Server: s, Agents: agents, Catalog: p.Catalog, Orchestrator: p.Orchestrator, Log: o.Log}
	if p.Catalog || p.Orchestrator {
		var err error
		if options.ForeignClusters, err = p.foreignClusters(o.Log); err != nil {
			return err
		}
	}
	if agents {
		var err error
		file := filepath.Join(o.Dir, "ca", legacyFile)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && compat.Members(s.Exchange.View()) {
			return api.Errorf(api.CodeConflict, "the market has members without a key, but %s, which their keys are derived from, is not there", file).At("--dir").
				Fix("copy the folder ca from the broker's --dir or from where it led before, or restore a backup")
		}
		if options.Secret, err = compat.OpenSecret(file); err != nil {
			return err
		}
	}
	if p.Agents {
		var err error
		var further []byte
		if p.LegacyCA != "" {
			if further, err = os.ReadFile(p.LegacyCA); err != nil {
				return api.Invalid("--legacy-ca", "%s", err).Fix("name a PEM file with the CA of the agents' certificates")
			}
		}
		if err := authority.AdmitCommonNames(further); err != nil {
			return api.Invalid("--legacy-ca", "%s: %s", p.LegacyCA, err).Fix("name a PEM file with the CA of the agents' certificates")
		}
	}
	compat.Serve(options)
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
		members = withoutAgents(s, members)
	}
	if !p.DistributedCatalog {
		return members
	}
	s.Log.Info("the broker also answers clients of the Distributed Catalog", "url", s.URL)
	return distributedcatalog.Broker(ctx, members, distributedcatalog.BrokerOptions{
		URL: s.URL, Server: s, Log: s.Log,
	})
}

// withoutAgents keeps the prototypes' agents' routes, which those need who come through objects, from who comes by HTTP.
func withoutAgents(s *server.Server, next http.Handler) http.Handler {
	refused := s.Bounded(s.ByCertificate, server.Refuse, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		server.Refuse(w, api.Errorf(api.CodeNotFound, "agents of the prototypes are not served by HTTP here").Fix("ask the operator for --broker-interface both"))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			refused.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	askWithin = 5 * time.Second // how long the broker's own cluster may take to say which clusters it knows,
	askAgain  = 5 * time.Second // and how long that is believed
)

// foreignClusters reads those of the broker's own cluster; nil where it runs in none.
func (p Prototypes) foreignClusters(log *slog.Logger) (func(context.Context) ([]json.RawMessage, error), error) {
	config := p.Kubernetes
	if config == nil {
		var err error
		if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, nil
		} else if err != nil {
			log.Warn("the catalog has members only: the broker may not ask its own cluster which clusters Liqo knows there; to let it, see config/catalog", "error", err)
			return nil, nil
		}
	}
	ask, err := liqo.ForeignClusters(config)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var known []json.RawMessage
	var asked time.Time
	return func(ctx context.Context) (all []json.RawMessage, err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) < askAgain {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		if all, err = ask(ctx); err == nil {
			known, asked = all, time.Now()
		}
		return all, err
	}, nil
}
