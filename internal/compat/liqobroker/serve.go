// Package liqobroker serves the catalog and the orchestrator of liqo-broker: /api/clusters and /api/toggle.
package liqobroker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/compat"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/server"
)

// Options say what is served, beside a server's own routes.
type Options struct {
	Server *server.Server
	// Orchestrator also serves /api/toggle, with which a consumer enables providers.
	Orchestrator bool
	// Aggregator lists hubs only: the clusters behind them are not shown.
	Aggregator bool
	// ForeignClusters returns the ForeignCluster objects of the broker's own cluster, as JSON. Nil:
	// there are none.
	ForeignClusters func(context.Context) ([]json.RawMessage, error)
}

// Serve adds the routes to a server that does not serve yet.
func Serve(o Options) {
	b := &liqoBroker{o}
	compat.Handle(o.Server, "GET /api/clusters", b.clusters)
	if o.Orchestrator {
		compat.Handle(o.Server, "GET /api/toggle", b.toggle)
		compat.Handle(o.Server, "POST /api/toggle", b.toggle)
		compat.Handle(o.Server, "DELETE /api/toggle", b.untoggle)
	}
}

type liqoBroker struct{ Options }

const (
	listTimeout = 5 * time.Second // of one list of the ForeignClusters
	listMaxAge  = 5 * time.Second // for which a list is used again
)

// ForeignClusters returns a function that lists the ForeignClusters of a cluster, for [Options]. A
// nil config means the cluster that the broker runs in. The function is nil where there is no
// cluster.
func ForeignClusters(config *rest.Config, log *slog.Logger) (func(context.Context) ([]json.RawMessage, error), error) {
	if config == nil {
		var err error
		if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			return nil, nil
		} else if err != nil {
			log.Warn("the catalog has members only: the broker cannot read the ForeignClusters of its own cluster; "+
				"to let it, see config/catalog", "error", err)
			return nil, nil
		}
	}
	list, err := liqo.ForeignClusters(config)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var known []json.RawMessage
	var listed time.Time
	return func(ctx context.Context) (all []json.RawMessage, err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(listed) < listMaxAge {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		if all, err = list(ctx); err == nil {
			known, listed = all, time.Now()
		}
		return all, err
	}, nil
}
