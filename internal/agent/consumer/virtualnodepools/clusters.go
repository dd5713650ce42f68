package virtualnodepools

import (
	"context"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// showEvery is how often a broker is asked what it shows of a provider.
const showEvery = time.Hour

// shown is what a broker showed last of a cluster.
type shown struct {
	at time.Time
	api.Cluster
}

// cluster returns what a broker shows of a cluster. A broker that does not answer changes nothing.
func (c *Controller) cluster(ctx context.Context, m *memory, id string, now time.Time) *api.Cluster {
	known, ok := m.shown[id]
	if ok && now.Sub(known.at) < showEvery || !c.options.Brokers.Reached() {
		return &known.Cluster
	}
	if found, err := c.options.Brokers.Cluster(ctx, id); err == nil {
		known = shown{now, found.Payload}
	} else {
		known.at = now.Add(askEvery - showEvery)
	}
	m.shown[id] = known
	return &known.Cluster
}

// readClusters reads what brokers show of the providers, and forgets other clusters in time.
func (c *Controller) readClusters(ctx context.Context, m *memory, all *children) {
	for id, known := range m.shown {
		if all.seen.Now.Sub(known.at) > 2*showEvery {
			delete(m.shown, id)
		}
	}
	all.uptime = map[string]*int64{}
	for _, provider := range all.seen.Providers {
		all.uptime[provider.Name] = c.cluster(ctx, m, provider.Name, all.seen.Now).Uptime
	}
}

// dropMixed leaves new clusters of several architectures out of an answer, unless the template names
// architectures: nobody knows on which a pod would run. It returns them, and the architectures of the others.
func (c *Controller) dropMixed(ctx context.Context, pool *api.VirtualNodePool, m *memory, fits *api.Fits,
	o *vnp.Observation) (known map[string]string, mixed []string) {
	if known = map[string]string{}; fits == nil {
		return known, nil
	}
	named := match.Names(pool.Spec.Template.Where, "architectures")
	fits.Clusters = slices.DeleteFunc(fits.Clusters, func(f api.Fit) bool {
		if slices.ContainsFunc(o.Providers, func(p vnp.Provider) bool { return p.Name == f.Cluster }) {
			return false
		}
		has := c.cluster(ctx, m, f.Cluster, o.Now).Properties.Architectures
		if len(has) > 1 && !named {
			mixed = append(mixed, f.Cluster)
			return true
		}
		if len(has) == 1 {
			known[f.Cluster] = has[0]
		}
		return false
	})
	return known, mixed
}
