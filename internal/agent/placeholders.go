package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// placeholders are pods that do nothing. They hold what is reserved and not used yet of the pools whose policy says so, and
// make room for the pods of the consumer who reserved it. What there is to hold follows from the Ledger and from the consumers'
// pods; nothing is remembered but when a place was given.
//
// Whatever goes leaves room that any pod may take that waits; but the scheduler keeps free, for a pod that says so in
// status.nominatedNodeName, what it needs there, from all of its priority and below. So a pod that waits gets its place in two
// steps. First a placeholder of just its size is nominated to a node, together with one for what is left, and those go that hold
// its room there; being of a class that never preempts, the two keep their nomination for as long as that takes. Then, when nothing has
// gone for a moment, the pod is nominated and its placeholder goes. The pod itself would lose the nomination at its first try in vain.
type placeholders struct {
	client.Client
	cluster   string
	market    *exchange.Exchange
	inventory *inventory.Inventory
	sharing   func() *api.Sharing
	// follow opens a cache of the placeholders and of the pods that run or wait here for consumers; it is opened once config/placeholders is there.
	follow func() (cache.Cache, error)
	log    *slog.Logger
	news   chan struct{}
	pods   cache.Cache
	given  map[types.UID]place
	busy   bool                 // a pod is on its way to its place: whatever else goes would have it tried too early, or might be its room
	went   time.Time            // when the last placeholder did
	left   map[string]time.Time // when those went that went lately, by their names

	mu    sync.Mutex
	wrong map[string]string // by pool, what keeps it without placeholders
}

const (
	placesNamespace = "bourse-placeholders"
	placesClass     = "bourse-placeholder"
	placesImage     = "registry.k8s.io/pause:3.10"
	// holdsFor names the slice for whose account a placeholder holds, standsFor the UID of the pod whose place it has.
	holdsFor  = api.Group + "/holds-for"
	standsFor = api.Group + "/stands-for"
	// placeLasts is how long the scheduler may take to agree with a place, until another is given.
	placeLasts = 10 * time.Second
	// quiet is how long after the last placeholder went the scheduler has tried again, in vain, the pods that wait.
	quiet = 500 * time.Millisecond
)

// placeholder says whether a pod is one: it counts for nothing.
func placeholder(pod *metav1.ObjectMeta) bool {
	return pod.Namespace == placesNamespace && pod.Labels[holdsFor] != ""
}

// errMoves says that a pod is no longer what was read: what has become of it is about to be heard, and nothing is done until then.
var errMoves = errors.New("a pod moves")

// tell lets them be looked at.
func (p *placeholders) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// run keeps the placeholders as they should be, until ctx ends.
func (p *placeholders) run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := p.look(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Info("placeholders are not as they should be: will try again", "error", err)
			wait = notYet
		}
		select {
		case <-p.news:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// held is an account of which something may be held.
type held struct {
	pool           api.PoolPolicy
	slice          string
	reserved, used market.Amounts
	left           map[string]time.Time // the names of placeholders that went a moment ago
	waiting        []*corev1.Pod        // the consumer's, for which the scheduler found no room
	have           []*corev1.Pod        // the placeholders
}

// look makes the placeholders what they should be now, and says when to look again.
func (p *placeholders) look(ctx context.Context) (time.Duration, error) {
	accounts, err := p.accounts(ctx)
	if err != nil {
		return 0, err
	}
	if there, err := p.open(ctx, accounts); err != nil || !there {
		return later, err
	}
	stray, others, err := p.sort(ctx, accounts)
	if err != nil {
		return 0, err
	}
	for _, pod := range stray {
		if err := p.remove(ctx, nil, pod); err != nil {
			return 0, err
		}
	}
	wait, wrong := later, map[string]string{}
	p.busy = false
	for _, given := range p.given { // of pods that wait still
		p.busy = p.busy || given.own && time.Since(given.since) < placeLasts
	}
	for _, a := range slices.SortedFunc(maps.Values(accounts), func(a, b *held) int { return cmp.Compare(a.slice, b.slice) }) {
		if len(a.waiting) > 0 {
			wait = notYet
		}
		if err := p.hold(ctx, a, others); errors.Is(err, errMoves) {
			wait = soon
		} else if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			wrong[a.pool.Name] = err.Error() // the others are held all the same
			wait = notYet
		} else if err != nil {
			return 0, err
		}
	}
	p.wrongs(wrong)
	return wait, nil
}

// open opens the cache, once there is what it is about. Without config/placeholders there are none, and it says so.
func (p *placeholders) open(ctx context.Context, accounts map[string]*held) (bool, error) {
	if p.pods != nil {
		return true, nil
	}
	err := p.Get(ctx, client.ObjectKey{Name: placesNamespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		wrong := map[string]string{}
		for _, a := range accounts {
			wrong[a.pool.Name] = "there is no namespace " + placesNamespace
		}
		p.wrongs(wrong)
		return false, nil
	} else if err != nil {
		return false, err
	}
	pods, err := p.follow()
	if err != nil {
		return false, err
	}
	informer, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return false, err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.tell() }, UpdateFunc: func(any, any) { p.tell() }, DeleteFunc: func(any) { p.tell() },
	}); err != nil {
		return false, err
	}
	p.pods = pods
	go func() { _ = pods.Start(ctx) }()
	return pods.WaitForCacheSync(ctx), nil
}

// accounts are those of which something is to be held, by their slices: what both sides are bound by, of pools whose policy says so.
func (p *placeholders) accounts(ctx context.Context) (map[string]*held, error) {
	sharing, accounts := p.sharing(), map[string]*held{}
	return accounts, p.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(p.cluster, 0) {
			pool := sharing.Pool(r.Pool)
			if r.Provider != p.cluster || !r.Bound() || pool == nil || pool.Placeholders == nil {
				continue
			}
			user := grant.User(r.Slice(), r.Consumer)
			if accounts[user] == nil {
				accounts[user] = &held{pool: *pool, slice: r.Slice(), left: p.left}
			}
			accounts[user].reserved = accounts[user].reserved.Plus(r.Size)
		}
	})
}

// sort gives each account its pods, by the user that makes them; what is left are placeholders of none, and what takes of the nodes
// besides the cluster's own pods: placeholders, and what runs or has a place for consumers.
func (p *placeholders) sort(ctx context.Context, accounts map[string]*held) (stray []*corev1.Pod, taking map[string]market.Amounts, err error) {
	var list corev1.PodList
	if err := p.pods.List(ctx, &list); err != nil {
		return nil, nil, err
	}
	bySlice := map[string]*held{}
	for _, a := range accounts {
		bySlice[a.slice] = a
	}
	taking, waiting := map[string]market.Amounts{}, map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		node := cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
		if node != "" && !over && (pod.Spec.NodeName != "" || pod.DeletionTimestamp == nil) {
			taking[node] = taking[node].Plus(requestsOf(pod)).Plus(slot)
		}
		switch a := accounts[liqo.Creator(&pod.ObjectMeta)]; {
		case placeholder(&pod.ObjectMeta):
			if pod.DeletionTimestamp != nil {
				continue
			}
			if a := bySlice[pod.Labels[holdsFor]]; a != nil && !over {
				a.have = append(a.have, pod)
			} else {
				stray = append(stray, pod)
			}
		case a == nil || over:
		case pod.Spec.NodeName != "":
			a.used = a.used.Plus(requestsOf(pod))
		case pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, unschedulable):
			a.waiting, waiting[pod.UID] = append(a.waiting, pod), true
		}
	}
	maps.DeleteFunc(p.left, func(_ string, since time.Time) bool { return time.Since(since) > placeLasts })
	maps.DeleteFunc(p.given, func(uid types.UID, _ place) bool { return !waiting[uid] })
	return stray, taking, nil
}

// hold gives the pods of an account that wait their places, and makes placeholders for the rest of what is reserved.
func (p *placeholders) hold(ctx context.Context, a *held, taking map[string]market.Amounts) error {
	rooms := p.inventory.Rooms(p.pools(), a.pool.Name)
	slices.SortFunc(a.waiting, func(x, y *corev1.Pod) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	want := a.reserved.Minus(a.used)
	for _, pod := range a.waiting {
		if placed, err := p.place(ctx, a, pod, rooms, taking); err != nil {
			return err
		} else if placed {
			want = want.Minus(requestsOf(pod))
		}
	}
	missing, excess := compare(want.Only(a.reserved), unit(a.reserved, rooms), a.have)
	if p.busy && len(excess) > 0 { // another pod may have taken the place of the one that is on its way
		return nil
	}
	for _, pod := range excess {
		if err := p.remove(ctx, a, pod); err != nil {
			return err
		}
	}
	for _, size := range missing {
		if err := p.create(ctx, a, size, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// create makes a placeholder; where a node is named, it waits for room there, and where a pod, it stands for that.
func (p *placeholders) create(ctx context.Context, a *held, size market.Amounts, node string, stands types.UID) error {
	if size = withoutPods(size); len(size) == 0 {
		return nil
	}
	pod := newPlaceholder(a, size)
	if stands != "" {
		pod.Labels[standsFor] = string(stands)
	}
	if err := p.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
		return errMoves // it was made a moment ago, and is about to be seen
	} else if err != nil {
		return err
	}
	a.have = append(a.have, pod)
	if node == "" {
		return nil
	}
	return p.nominate(ctx, pod, node)
}

// pools are those that are shared, in their order.
func (p *placeholders) pools() []api.PoolPolicy {
	if s := p.sharing(); s != nil {
		return s.Pools
	}
	return nil
}

// remove deletes a placeholder at once, and takes it off its account, if that is known.
func (p *placeholders) remove(ctx context.Context, a *held, pod *corev1.Pod) error {
	p.went = time.Now()
	p.left[pod.Name] = p.went
	if a != nil {
		a.have = slices.DeleteFunc(slices.Clone(a.have), func(h *corev1.Pod) bool { return h.UID == pod.UID })
	}
	if err := p.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}); !apierrors.IsConflict(err) { // it is gone, and another has its name
		return client.IgnoreNotFound(err)
	}
	return nil
}

// wrongs remembers what keeps pools without placeholders.
func (p *placeholders) wrongs(wrong map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !maps.Equal(wrong, p.wrong) && len(wrong) > 0 {
		p.log.Warn("there are no placeholders where the SharingPolicy wants some", "pools", wrong)
	}
	p.wrong = wrong
}

// missing are the pools that have no placeholders though their policy wants some, and why.
func (p *placeholders) missing() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.wrong)
}

// newPlaceholders makes those of this agent.
func (a *agent) newPlaceholders(l *lend) *placeholders {
	return &placeholders{
		Client: a.mgr.GetClient(), cluster: l.cluster, market: l.market, inventory: l.inventory, sharing: l.sharing, log: l.log,
		news: make(chan struct{}, 1), given: map[types.UID]place{}, left: map[string]time.Time{},
		follow: func() (cache.Cache, error) {
			return cache.New(a.mgr.GetConfig(), cache.Options{
				Scheme: a.mgr.GetScheme(), Mapper: a.mgr.GetRESTMapper(), HTTPClient: a.mgr.GetHTTPClient(),
				ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
					Namespaces: map[string]cache.Config{placesNamespace: {}, cache.AllNamespaces: {LabelSelector: liqo.FromShadowPods().AsSelector()}},
					Transform:  lean,
				}},
			})
		},
	}
}
