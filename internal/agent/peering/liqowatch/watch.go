// Package liqowatch knows this cluster's Liqo, and whether a provider can be used from here.
//
// Start at [New], which returns nil where the cluster has no Liqo that Bourse can use. [Watch.Run] reads
// Liqo's configuration again and again. [Watch.FillCard] shows it to other clusters. Before this cluster
// signs anything, [Watch.CheckBorrow] checks that its own Liqo can borrow, and [Watch.CheckReach] that the
// provider's API server answers.
package liqowatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// readEvery is how often Liqo's configuration is read.
const readEvery = time.Minute

// Options say where Liqo is.
type Options struct {
	// Reader reads from the API server, not from a cache. Mapper knows the kinds that the cluster has.
	Reader client.Reader
	Mapper meta.RESTMapper
	// Namespace is Liqo's. Empty: the agent does not use Liqo.
	Namespace string
	// APIServer is the URL at which peers reach this cluster's API server. Empty: as Liqo is configured.
	APIServer string
	// Gateway is how others reach this cluster's gateway of Liqo's network.
	Gateway network.Gateway
	// AllowUntested takes any version of Liqo, and compares nothing. Missing returns a field that the cluster's CRDs lack
	// (liqo.MissingField).
	AllowUntested bool
	Missing       func() (string, error)
	// Addresses checks the addresses that providers name.
	Addresses *peeraddress.Checker
	// Changed is called when Liqo's configuration has changed.
	Changed func()
	// Clock is the machine's by default.
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Watch knows this cluster's Liqo. Several goroutines may use it.
type Watch struct {
	options  Options
	dialling singleflight.Group    // by provider and address
	dials    *cache.LRUExpireCache // the result of each address

	mu        sync.Mutex
	canBorrow bool // it was so once: Liqo's key stays
	known     liqo.Installation
	limits    *cache.LRUExpireCache // how often each provider may name another address
}

// New reads this cluster's Liqo. It returns nil where there is none, or none that Bourse can use; the log
// says why. Errors: those of the API server.
func New(ctx context.Context, o Options) (*Watch, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Namespace == "" {
		return nil, nil
	}
	there, err := liqo.Installed(o.Mapper)
	if err != nil {
		return nil, err
	}
	if !there {
		o.Log.Warn("this cluster has no Liqo: reservations end at Reserved", "remedy",
			"install Liqo v1.2, then restart the agent")
		return nil, nil
	}
	w := newWatch(o)
	if _, err := w.read(ctx); err != nil {
		return nil, err
	}
	found := w.Installation()
	if o.Gateway.Joins() && !found.Networking {
		o.Log.Warn("--network-gateway is set, but the Liqo of this cluster has no networking",
			"remedy", "install Liqo with networking.enabled")
	}
	if found.Off != "" {
		o.Log.Error("Liqo's modules are switched off: reservations end at Reserved", "modules", found.Off,
			"remedy", "enable them: helm upgrade liqo; then restart the agent")
		return nil, nil
	}
	if o.AllowUntested {
		return w, nil
	}
	support, err := liqo.CheckSupport(found.Version, o.missingForLong)
	if err != nil {
		return nil, err
	}
	if support.Refused != "" {
		o.Log.Error("Bourse does not use this Liqo: reservations end at Reserved", "reason", support.Refused,
			"remedy", "install Liqo v"+liqo.Tested+", or give --allow-untested-liqo; then restart the agent")
		return nil, nil
	}
	if support.Untested {
		o.Log.Warn("Bourse was not tested with this Liqo", "found", found.Version, "tested", liqo.Tested)
	}
	return w, nil
}

// missingForLong returns a field that the CRDs lack, if they lack one for 10 seconds: the API server publishes the
// schemas of new CRDs some time after it serves them.
func (o *Options) missingForLong() (field string, err error) {
	for try := range 3 {
		if try > 0 {
			o.Clock.Sleep(5 * time.Second)
		}
		if field, err = o.Missing(); field == "" || err != nil {
			break
		}
	}
	return field, err
}

func newWatch(o Options) *Watch {
	return &Watch{options: o, dials: cache.NewLRUExpireCacheWithClock(maxDials, o.Clock),
		limits: cache.NewLRUExpireCacheWithClock(maxLimits, o.Clock)}
}

// Run reads Liqo's configuration again and again, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	ticker := w.options.Clock.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		changed, err := w.read(ctx)
		if err != nil {
			w.options.Log.Warn("Liqo's configuration cannot be read", "error", err)
		}
		if changed {
			w.options.Changed()
		}
	}
}

// read reads the configuration, and reports whether it has changed.
func (w *Watch) read(ctx context.Context) (changed bool, err error) {
	next, err := liqo.ReadInstallation(ctx, w.options.Reader, w.options.Namespace)
	if err != nil {
		return false, err
	}
	if w.options.APIServer != "" {
		next.APIServer = w.options.APIServer
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = next != w.known
	w.known = next
	return changed, nil
}

// Installation returns what is known of this cluster's Liqo.
func (w *Watch) Installation() liqo.Installation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// CheckBorrow returns why this cluster's Liqo cannot borrow from any provider: its key is of a kind that no
// provider accepts. A key that does not exist yet is no reason. Errors: Unavailable; the API server's.
func (w *Watch) CheckBorrow(ctx context.Context) error {
	w.mu.Lock()
	canBorrow := w.canBorrow
	w.mu.Unlock()
	if canBorrow {
		return nil
	}
	if _, _, err := peering.Keys(ctx, w.options.Reader, w.options.Namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canBorrow = true
	return nil
}

// FillCard writes onto a cluster's card which Liqo it has. A Liqo that lacks a module is left out. sharing is
// nil where nothing is shared.
func (w *Watch) FillCard(p *api.Properties, sharing *api.Sharing) {
	known, gateway := w.Installation(), w.options.Gateway
	p.APIServer, p.Gateway = known.APIServer, gateway.Serves()
	if known.Off == "" {
		p.Liqo = known.Version
	}
	if sharing != nil && sharing.Network == api.NetworkWireGuard && gateway.Joins() {
		p.Network = api.NetworkWireGuard
	}
	if sharing != nil && sharing.APIServerAccess == api.APIServerNetwork {
		p.APIServerAccess = api.APIServerNetwork
	}
}
