// Package liqowatch knows this cluster's Liqo, and whether a provider can be used from here.
//
// Start at [New], which returns nil where the cluster has no Liqo that Bourse can use. [Watch.Run] reads
// Liqo again and again, so that an upgrade needs no restart. [Watch.FillCard] shows it to other clusters. Before this cluster
// signs anything, [Watch.CheckBorrow] checks that its own Liqo can borrow, and [Watch.CheckReach] that the
// provider's API server answers.
package liqowatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
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
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

// readEvery is how often Liqo's Deployment and kinds are read, also where there is no Liqo that Bourse can use. An
// upgrade is seen after as long.
const readEvery = 15 * time.Second

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
	// Served returns what the API server serves of Liqo's kinds (liqo.Probe).
	Served func() (liqo.Served, error)
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
	known     state
	limits    *cache.LRUExpireCache // how often each provider may name another address
}

// state is what was read of Liqo, and whether Bourse uses it.
type state struct {
	liqo.Installation
	support  liqo.Support
	protocol string // the lines of liqo.Served.Protocol
}

func splitLines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// New reads this cluster's Liqo. It returns nil where there is none, or none that Bourse can use; the log
// says why, and [Waiting] waits for one. Errors: those of the API server.
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
		o.Log.Warn("this cluster has no Liqo: reservations end at Reserved", "remedy", "install Liqo "+liqo.Tested)
		return nil, nil
	}
	w := newWatch(o)
	if _, err := w.read(ctx); err != nil {
		return nil, err
	}
	if w.known.support.Refused != "" {
		return nil, nil
	}
	if o.Gateway.Joins() && !w.known.Networking {
		o.Log.Warn("--network-gateway is set, but the Liqo of this cluster has no networking",
			"remedy", "install Liqo with networking.enabled")
	}
	return w, nil
}

// ErrUsable says that the cluster has a Liqo now that Bourse can use. The agent starts again with it.
var ErrUsable = errors.New("the cluster has a Liqo that can be used")

// Waiting waits for a Liqo that Bourse can use, in a cluster where [New] found none.
type Waiting struct{ Options }

// Run looks again and again, until ctx ends. Errors: ErrUsable.
func (o Waiting) Run(ctx context.Context) error {
	ticker := o.Clock.NewTicker(readEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if there, err := liqo.Installed(o.Mapper); err != nil || !there {
			continue
		}
		now, err := newWatch(o.Options).readOnce(ctx)
		if err == nil && now.support.Refused == "" {
			o.Log.Info("the cluster has a Liqo that can be used", "version", now.Version)
			return ErrUsable
		}
	}
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
			w.options.Log.Warn("Liqo cannot be read", "error", err)
		}
		if changed {
			w.options.Changed()
		}
	}
}

// tries is how often what Liqo lacks is read before it counts: the API server publishes the schemas of new CRDs some
// time after it serves them. The pauses between are 1, 2, 3 and 4 seconds.
const tries = 5

// read reads Liqo, and reports whether something has changed. What Liqo lacks counts once it lacks it for 10 seconds.
func (w *Watch) read(ctx context.Context) (changed bool, err error) {
	before := w.now()
	var next state
	for try := range tries {
		w.options.Clock.Sleep(time.Duration(try) * time.Second)
		next, err = w.readOnce(ctx)
		if err != nil {
			return false, err
		}
		if next.support.Lacks == nil || next.support == before.support {
			break
		}
	}
	w.mu.Lock()
	w.known = next
	w.mu.Unlock()
	switch {
	case next.support == before.support && next.Version == before.Version:
	case next.support.Refused != "":
		w.options.Log.Error("Bourse does not use this Liqo: nothing new is peered", "reason", next.support.Refused,
			"remedy", "install Liqo "+liqo.Tested)
	case next.support.Untested:
		w.options.Log.Warn("Bourse was not tested with this Liqo", "found", next.Version, "tested", liqo.Tested)
	}
	return next != before, nil
}

// readOnce reads Liqo's Deployment and what the API server serves of its kinds.
func (w *Watch) readOnce(ctx context.Context) (out state, err error) {
	out.Installation, err = liqo.ReadInstallation(ctx, w.options.Reader, w.options.Namespace)
	if err != nil {
		return out, err
	}
	if w.options.APIServer != "" {
		out.APIServer = w.options.APIServer
	}
	served, err := w.options.Served()
	if err != nil {
		return out, err
	}
	out.support, out.protocol = liqo.Judge(out.Installation, served), strings.Join(served.Protocol, "\n")
	return out, nil
}

func (w *Watch) now() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// Installation returns what is known of this cluster's Liqo.
func (w *Watch) Installation() liqo.Installation { return w.now().Installation }

// CheckBorrow returns why this cluster's Liqo cannot borrow from any provider: Bourse cannot use it any more, or its key
// is of a kind that no provider accepts. A key that does not exist yet is no reason.
// Errors: Unavailable; the API server's.
func (w *Watch) CheckBorrow(ctx context.Context) error {
	if why := w.now().support.Refused; why != "" {
		return api.Errorf(api.CodeUnavailable, "%s", why).Fix("install Liqo %s: the agent sees it by itself", liqo.Tested)
	}
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

// FillCard writes onto a cluster's card which Liqo it has. One that Bourse cannot use is left out: nobody peers anew
// with the cluster. So is the protocol of Liqo 1.2, which counts without being named: brokers and agents of former
// releases refuse cards with fields that they do not know. sharing is nil where nothing is shared.
func (w *Watch) FillCard(p *api.Properties, sharing *api.Sharing) {
	known, gateway := w.now(), w.options.Gateway
	p.APIServer, p.Gateway = known.APIServer, gateway.Serves()
	if known.support.Refused == "" {
		p.Liqo, p.LiqoProtocol = known.Version, nil
		if protocol := splitLines(known.protocol); !slices.Equal(liqoprotocol.Of(p), protocol) {
			p.LiqoProtocol = protocol
		}
	}
	if sharing != nil && sharing.Network == api.NetworkWireGuard && gateway.Joins() {
		p.Network = api.NetworkWireGuard
	}
	if sharing != nil && sharing.APIServerAccess == api.APIServerNetwork {
		p.APIServerAccess = api.APIServerNetwork
	}
}
