package virtualnodepools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// templateAnnotation is the digest of the template that the provider of a request met.
const templateAnnotation = api.Group + "/template"

// checkEvery is how often a broker is asked whether a provider still meets the template.
const checkEvery = 10 * time.Minute

// check is what the broker said last of a provider and the template.
type check struct {
	of    string // the digest of the template
	at    time.Time
	unmet bool
}

// digestOf is that of what a provider must meet.
func digestOf(t api.ReservationTemplate) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%q %q", t.Where, t.Network))
	return hex.EncodeToString(digest[:8])
}

// checkTemplates asks the broker whether providers still meet the template, once half of their time is left.
// A broker that does not say changes nothing.
func (c *Controller) checkTemplates(ctx context.Context, pool *api.VirtualNodePool, m *memory, all *children) error {
	now, digest := all.seen.Now, digestOf(pool.Spec.Template)
	for i := range all.seen.Providers {
		p := &all.seen.Providers[i]
		if p.Until.IsZero() || p.Until.Sub(now) > api.DurationOf(pool.Spec.Template.Duration)/2 ||
			!p.Drifted && pool.Spec.Replace != api.ReplaceOnDrift {
			continue
		}
		known := m.checked[p.Name]
		if known.of != digest || now.Sub(known.at) >= checkEvery {
			q := api.EvaluationCreate{Request: c.request(pool), Fitting: api.Fitting{Fits: 1}}
			q.Request.Target, q.Request.Resources = p.Name, p.Reserved.Resources()
			found, err := c.options.Brokers.FitAt(ctx, pool.Spec.Template.Broker, q)
			if err != nil {
				continue
			}
			known = check{digest, now, slices.ContainsFunc(found.Decision.Eliminated, func(e api.Elimination) bool {
				return e.Filter == "where" || e.Filter == "network"
			})}
			m.checked[p.Name] = known
		}
		if p.Unmet = known.unmet; p.Drifted && !p.Unmet {
			p.Drifted = false
			if err := c.annotate(ctx, all.requests[p.Name], templateAnnotation, digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropFar leaves new clusters out of an answer that are farther than the pool allows, and reports whether
// there are any.
func (c *Controller) dropFar(ctx context.Context, pool *api.VirtualNodePool, fits *api.Fits, all *children) bool {
	if pool.Spec.MaxLatency == nil || fits == nil {
		return false
	}
	isFar := make([]bool, len(fits.Clusters))
	var calls sync.WaitGroup // at once: each may take until a dial ends, and all pools wait meanwhile
	for i, f := range fits.Clusters {
		if slices.ContainsFunc(all.seen.Providers, func(p vnp.Provider) bool { return p.Name == f.Cluster }) {
			continue
		}
		calls.Go(func() {
			took, err := c.options.Brokers.Latency(ctx, f.Cluster)
			isFar[i] = err != nil || took > pool.Spec.MaxLatency.Duration
		})
	}
	calls.Wait()
	var near []api.Fit
	for i, f := range fits.Clusters {
		if !isFar[i] {
			near = append(near, f)
		}
	}
	before := len(fits.Clusters)
	fits.Clusters = near
	return len(fits.Clusters) < before
}
