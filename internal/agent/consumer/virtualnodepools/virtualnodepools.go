// Package virtualnodepools keeps the virtual nodes of each VirtualNodePool as large as demand needs. Start at
// [Controller.Reconcile]: it observes pods, requests and nodes, lets package vnp plan, carries the
// steps out by ResourceRequests in the agent's namespace, one for each provider, and shows the result.
package virtualnodepools

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/vnp"
)

const (
	// lookEvery is how often a pool is looked at if nothing changes. This reads caches alone.
	lookEvery = time.Minute
	// gather is how long changes of pods are gathered before a pool is looked at.
	gather = 200 * time.Millisecond
	// soon is how long until the result of a step is looked at.
	soon = time.Second
	// A provider that refuses or does not answer is not asked again for firstPause, and each time
	// twice as long, at most lastPause.
	firstPause, lastPause = 5 * time.Minute, 4 * time.Hour
)

// Options say for which cluster pools are kept, and through what.
type Options struct {
	Client client.Client
	// Reader reads from the API server what must be newest.
	Reader client.Reader
	// Pods reads pods and claims of the namespaces of pools.
	Pods Namespaces
	// Market is that of the Ledger.
	Market *exchange.Exchange
	// Namespace is the agent's: the requests are there.
	Namespace string
	Brokers   Brokers
	// Offload offloads the namespaces of all pools and requests, and ends the offloading of others.
	Offload func(ctx context.Context) error
	// Serve makes the virtual node with a provider what its request says now.
	Serve func(provider string)
	// Liqo returns this cluster's. Nil: it has none.
	Liqo   func() liqo.Installation
	Events events.EventRecorder
	Times
}

func (o *Options) liqo() liqo.Installation {
	if o.Liqo == nil {
		return liqo.Installation{}
	}
	return o.Liqo()
}

// Times are a clock, by default the machine's, and how long things last.
type Times struct {
	Clock clock.PassiveClock
	// DeadAfter is that of vnp.Observation.
	DeadAfter time.Duration
}

// Namespaces are the pods and claims of namespaces.
type Namespaces interface {
	// In returns a reader of those of a namespace, which is current until ctx ends. changed is called after
	// changes, instead of that of earlier calls. It must not block.
	In(ctx context.Context, namespace string, changed func()) (client.Reader, error)
	// UsedOn returns what all pods on a node request, also those of other namespaces.
	UsedOn(node string) api.Resources
	// Only says that no others than these namespaces are needed any more.
	Only(namespaces map[string]string)
}

// Controller is the controller of VirtualNodePools.
type Controller struct {
	options Options
	evictor offload.Evictor
	changed kubeobject.Trigger

	mu      sync.Mutex
	pools   map[string]*memory
	brokers brokerState // what the brokers said last
}

// memory is what is known of a pool between two looks. One worker at a time uses it.
type memory struct {
	uid       types.UID
	offloaded int64 // the generation whose namespaces are offloaded
	planner   *vnp.Planner
	paused    map[string]pause // by provider
	answers   answers
	checked   map[string]check     // by provider
	shown     map[string]shown     // by cluster
	missing   map[string]time.Time // by Node, since when a reservation in use has none
}

// New returns the controller of VirtualNodePools.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Controller{options: o, pools: map[string]*memory{}}
	c.evictor = offload.Evictor{Reader: o.Reader, Client: o.Client}
	o.Brokers.OnHeard(c.recheckPools)
	return c
}

// Control starts the controller.
func (c *Controller) Control(m ctrl.Manager) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if name := o.GetLabels()[api.VirtualNodePoolLabel]; name != "" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
		}
		return nil
	})
	if err := m.Add(manager.RunnableFunc(c.followLedger)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).Named("virtualnodepool").For(&api.VirtualNodePool{}).
		Watches(&api.ResourceRequest{}, byLabel).Watches(&corev1.Node{}, byLabel).
		WatchesRawSource(&c.changed).Complete(c)
}

// Reconcile makes the next steps of a pool, and shows its state.
func (c *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pool api.VirtualNodePool
	if err := c.options.Client.Get(ctx, request.NamespacedName, &pool); err != nil {
		if client.IgnoreNotFound(err) != nil || !c.forget(request.Name) {
			return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
		}
		if _, err := c.owners(ctx); err != nil {
			return ctrl.Result{}, kubeobject.Error(err)
		}
		return ctrl.Result{}, kubeobject.Error(c.options.Offload(ctx))
	}
	m, err := c.remember(&pool)
	if err != nil {
		return ctrl.Result{}, c.showInvalid(ctx, &pool, err)
	}
	before := pool.DeepCopy()
	if pool.DeletionTimestamp == nil && controllerutil.AddFinalizer(&pool, api.VirtualNodesFinalizer) {
		if err := c.options.Client.Patch(ctx, &pool, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, kubeobject.Error(err)
		}
	}
	children, err := c.observe(ctx, &pool, m)
	if err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	if m.offloaded != pool.Generation {
		if err := c.options.Offload(ctx); err != nil {
			return ctrl.Result{}, kubeobject.Error(err)
		}
		for provider := range children.requests {
			c.options.Serve(provider)
		}
		m.offloaded = pool.Generation
	}
	if pool.DeletionTimestamp != nil {
		return c.finish(ctx, &pool, children)
	}
	if err := c.checkTemplates(ctx, &pool, m, children); err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	if err := c.findMissing(ctx, children); err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	c.readClusters(ctx, m, children)
	plan := c.plan(ctx, &pool, m, children)
	stepped, err := c.carryOut(ctx, &pool, m, children, plan)
	if err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	if err := c.show(ctx, &pool, children, plan); err != nil {
		return ctrl.Result{}, err
	}
	again := lookEvery
	if stepped {
		again = soon
	}
	if !plan.Again.IsZero() {
		again = min(again, max(plan.Again.Sub(children.seen.Now), time.Millisecond))
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// request returns what each reservation of a pool asks for, without its size.
func (c *Controller) request(pool *api.VirtualNodePool) api.Request {
	t := pool.Spec.Template
	r := api.Request{Where: t.Where, Strategy: t.Strategy, Network: t.Network, Duration: t.Duration,
		Relend: t.Relend, Aggregated: t.Aggregated}
	if len(pool.Spec.Providers.Only) == 1 {
		r.Target = pool.Spec.Providers.Only[0]
	}
	return r
}

// remember returns what is known of a pool, with its newest spec. The end of a pool needs no plan, and so no valid
// spec. Errors: Invalid.
func (c *Controller) remember(pool *api.VirtualNodePool) (*memory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends, m := pool.DeletionTimestamp != nil, c.pools[pool.Name]
	if m != nil && m.uid == pool.UID {
		if ends {
			return m, nil
		}
		return m, m.planner.Update(&pool.Spec)
	}
	planner, err := vnp.New(&pool.Spec)
	if err != nil && !ends {
		return nil, err
	}
	c.pools[pool.Name] = newMemory(pool, planner)
	return c.pools[pool.Name], nil
}

func newMemory(pool *api.VirtualNodePool, planner *vnp.Planner) *memory {
	return &memory{uid: pool.UID, planner: planner, paused: map[string]pause{}, checked: map[string]check{},
		shown: map[string]shown{}, missing: map[string]time.Time{}}
}

// noteMissing sets since when a reservation in use has no Node. It had one until then: the cluster's admin, or
// Liqo, may have deleted it to make it again.
func (m *memory) noteMissing(child *child, p *vnp.Provider, now time.Time) {
	if p.State != vnp.NotReady || child.node != nil {
		delete(m.missing, p.Node)
		return
	}
	if m.missing[p.Node].IsZero() {
		m.missing[p.Node] = now
	}
	p.Since = m.missing[p.Node]
}

// forget drops what is known of a pool, and reports whether anything was.
func (c *Controller) forget(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.pools[name] != nil
	delete(c.pools, name)
	unobserve(name)
	return known
}

// finish empties the virtual nodes of a pool that is being deleted, and ends its requests.
func (c *Controller) finish(ctx context.Context, pool *api.VirtualNodePool, all *children) (ctrl.Result, error) {
	for _, child := range all.beside {
		if err := c.delete(ctx, child); err != nil {
			return ctrl.Result{}, kubeobject.Error(err)
		}
	}
	for _, provider := range all.seen.Providers {
		if len(provider.Claims) > 0 && !provider.GivenUp {
			continue
		}
		if err := c.release(ctx, pool, all, provider.Name); err != nil {
			return ctrl.Result{}, kubeobject.Error(err)
		}
	}
	if len(all.requests) > 0 {
		return ctrl.Result{RequeueAfter: soon}, c.showDraining(ctx, pool, all)
	}
	err := kubeobject.Change(ctx, c.options.Client, pool, func() {
		controllerutil.RemoveFinalizer(pool, api.VirtualNodesFinalizer)
	})
	return ctrl.Result{}, kubeobject.Error(err)
}
