package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// brokers is the controller of Brokers: those that this cluster deals with besides its main one, each with a session like that, with an identity
// of its own and over the one Ledger. People add, change, disable and remove them; that one is away removes nothing.
type brokers struct {
	client.Client
	cluster, namespace string
	market             *exchange.Exchange
	member             *enrollment.Membership // to the main one
	main               *brokersession.Session
	sessions           *brokersession.Sessions
	watcher            *brokersession.Watcher
	catalogs           *catalogcache.Cache
	log                *slog.Logger
	// changed names brokers to look at again.
	changed *kubeobject.Trigger
	// came is told when another is dealt with, so that it hears at once what this cluster has and sells.
	came func()
	// introduce shows one this cluster's card: without it nobody agrees to anything there.
	introduce func(context.Context, transport.Broker) error

	ctx  context.Context // of what is open
	mu   sync.Mutex
	open map[string]*joined
	all  sync.WaitGroup
}

// joined is a broker that is dealt with, or is being joined.
type joined struct {
	*enrollment.Membership                        // nil until it is joined
	session                *brokersession.Session // likewise
	spec                   api.BrokerSpec
	err                    error // why it is not joined
	close                  context.CancelFunc
}

// Reconcile makes a broker what its object says.
func (b *brokers) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	if at.Namespace != b.namespace {
		return ctrl.Result{}, nil
	}
	var object api.Broker
	err := b.Get(ctx, at.NamespacedName, &object)
	gone := apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil
	switch {
	case err != nil && !gone:
		return ctrl.Result{}, err
	case at.Name == api.MainBroker:
		b.main.SetEnabled(gone || !object.Spec.Disabled)
	case gone:
		return ctrl.Result{}, b.remove(ctx, at.Name)
	default:
		b.follows(at.Name, object.Spec)
	}
	if gone {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, b.show(ctx, &object)
}

// follows deals with a broker as its object says now.
func (b *brokers) follows(name string, spec api.BrokerSpec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return
	}
	one := b.open[name]
	if one != nil && (one.spec.URL != spec.URL || one.Membership == nil && one.err != nil && one.spec != spec) {
		b.end(name)
		one = nil
	}
	if one == nil {
		ctx, cancel := context.WithCancel(b.ctx)
		one = &joined{spec: spec, close: cancel}
		b.open[name] = one
		b.all.Go(func() { b.deal(ctx, name, one, spec) })
	}
	if one.spec = spec; one.session != nil {
		one.session.SetEnabled(!spec.Disabled)
	}
}

// end stops dealing with a broker. The lock is held.
func (b *brokers) end(name string) {
	one := b.open[name]
	if one == nil {
		return
	}
	one.close()
	if one.session != nil {
		one.session.Switch.Set(false)
		b.sessions.Remove(one.session)
	}
	delete(b.open, name)
}

// remove forgets a broker that people removed, and this cluster's identity there.
func (b *brokers) remove(ctx context.Context, name string) error {
	b.mu.Lock()
	b.end(name)
	b.mu.Unlock()
	b.catalogs.Forget(route.ToBroker(name))
	return b.member.StoreFor(name).Drop(ctx)
}

// deal joins a broker, if that has not been done, and follows it until ctx ends.
func (b *brokers) deal(ctx context.Context, name string, one *joined, spec api.BrokerSpec) {
	log := b.log.With("broker", name)
	m, err := b.enter(ctx, name, spec, log)
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("the broker was not joined", "error", err)
		}
		b.mu.Lock()
		one.err = err
		b.mu.Unlock()
		b.changed.Add(b.namespace, name)
		return
	}
	broker := transport.NewHTTP(b.cluster, m.Client())
	s := brokersession.New(brokersession.Options{
		Via: route.ToBroker(name), Cluster: b.cluster, Key: b.member.Key(), Broker: broker, Lends: true, Switch: m.Switch(),
		Greet: func(ctx context.Context) error { return b.introduce(ctx, broker) },
	})
	b.mu.Lock()
	if ctx.Err() != nil {
		b.mu.Unlock()
		return
	}
	one.Membership, one.session = m, s
	s.SetEnabled(!one.spec.Disabled)
	b.sessions.Add(s)
	b.mu.Unlock()
	b.came()
	b.changed.Add(b.namespace, name)
	var both sync.WaitGroup
	both.Go(func() { _ = m.Run(ctx) })
	b.watcher.Watch(ctx, s)
	both.Wait()
	m.CloseIdleConnections()
}

// enter loads this cluster's identity at a broker, or joins to get one.
func (b *brokers) enter(ctx context.Context, name string, spec api.BrokerSpec, log *slog.Logger) (*enrollment.Membership, error) {
	if err := checkBroker(name, spec); err != nil {
		return nil, err
	}
	return enrollment.New(ctx, enrollment.Options{Cluster: b.cluster, Broker: name, Store: b.member.StoreFor(name), Token: spec.Join, BrokerURL: spec.URL, Log: log})
}

// checkBroker says what of a broker cannot be so. Errors: Invalid with the field.
func checkBroker(name string, spec api.BrokerSpec) error {
	if err := market.ValidCluster("name", name); err != nil {
		return err
	}
	if name == api.MainBroker && (spec.Join != "" || spec.URL != "") {
		return api.Invalid("name", "%s is the broker that the agent was started with", name).Fix("give another name; or start the agent with another --join or --broker-url")
	}
	if spec.Join != "" {
		if _, err := join.ParseToken(spec.Join); err != nil {
			if e, ok := errors.AsType[*api.Error](err); ok {
				return e.At("join")
			}
			return api.Invalid("join", "%s", err).Fix("copy what bourse broker token create printed")
		}
	}
	if spec.URL != "" {
		at, err := url.Parse(spec.URL)
		if err != nil || at.Scheme != "https" || at.Host == "" || at.Path != "" && at.Path != "/" || at.User != nil {
			return api.Invalid("url", "%.80q is not the URL of a broker", spec.URL).Fix("write https://HOST:PORT")
		}
	}
	return nil
}

// show writes how a broker stands.
func (b *brokers) show(ctx context.Context, object *api.Broker) error {
	status := object.Status.DeepCopy()
	b.describe(object.Name, object.Spec, object.Generation, status)
	if equality.Semantic.DeepEqual(object.Status, *status) {
		return nil
	}
	object.Status = *status
	return kubeobject.SoleStatus(b.Client).Apply(ctx, object)
}

// describe says how a broker stands, and returns its session if it is dealt with.
func (b *brokers) describe(name string, spec api.BrokerSpec, generation int64, s *api.BrokerStatus) *brokersession.Session {
	c := metav1.Condition{Type: api.ConditionConnected, Status: metav1.ConditionFalse, ObservedGeneration: generation}
	b.mu.Lock()
	f, one := b.main, b.open[name]
	s.URL = b.member.URL()
	var refused error
	if name != api.MainBroker {
		f, s.URL = nil, spec.URL
		if one != nil && one.Membership != nil {
			f, s.URL = one.session, one.URL()
		}
		if one != nil {
			refused = one.err
		}
	}
	b.mu.Unlock()
	err := error(nil)
	if f != nil {
		err = f.Connection().State().Err
	}
	switch connected := f != nil && f.IsConnected(); {
	case spec.Disabled:
		c.Reason, c.Message = "Disabled", "an admin disabled it; existing reservations stay"
	case f == nil && refused == nil:
		c.Reason, c.Message = "Joining", "it is being joined"
	case f == nil:
		c.Reason, c.Message = "NotJoined", refused.Error()
	case connected:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Connected", "its watch is open"
	case err != nil:
		c.Reason, c.Message = string(api.CodeOf(err)), err.Error()
	default:
		c.Reason, c.Message = "Joining", "it has not answered yet"
	}
	if len(c.Message) > 1024 {
		c.Message = strings.ToValidUTF8(c.Message[:1024], "")
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return f
}

// known are all brokers, the main one first.
func (b *brokers) known(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	var list api.BrokerList
	if err := b.List(ctx, &list, client.InNamespace(b.namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	if !slices.ContainsFunc(list.Items, func(o api.Broker) bool { return o.Name == api.MainBroker }) {
		list.Items = append(list.Items, api.Broker{ObjectMeta: metav1.ObjectMeta{Name: api.MainBroker}})
	}
	made := map[string]int{}
	err := b.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(b.cluster, 0) {
			if r.State.Counts() && route.IsBroker(r.Via) {
				made[route.BrokerName(r.Via)]++
			}
		}
	})
	out := make([]api.Envelope[api.KnownBroker], len(list.Items))
	for i := range list.Items {
		o := &list.Items[i]
		k := api.KnownBroker{Spec: o.Spec, Status: *o.Status.DeepCopy(), Reservations: made[o.Name]}
		k.Spec.Join = ""
		if f := b.describe(o.Name, o.Spec, o.Generation, &k.Status); f != nil {
			state := f.Connection().State()
			last := state.Last
			k.LastHeard = metav1.NewTime(last)
			if last.IsZero() {
				k.LastHeard = metav1.Time{}
			}
			if o.Name == api.MainBroker && o.UID == "" { // nobody keeps since when
				meta.FindStatusCondition(k.Status.Conditions, api.ConditionConnected).LastTransitionTime = metav1.NewTime(state.Turned)
			}
		}
		out[i] = api.Envelope[api.KnownBroker]{ID: o.Name, Revision: uint64(o.Generation), Payload: k}
	}
	slices.SortStableFunc(out, func(x, y api.Envelope[api.KnownBroker]) int {
		return cmp.Or(last(y.ID == api.MainBroker)-last(x.ID == api.MainBroker), strings.Compare(x.ID, y.ID))
	})
	return out, err
}

func last(is bool) int {
	if is {
		return 1
	}
	return 0
}

// run closes what is open when ctx ends.
func (b *brokers) run(ctx context.Context) error {
	<-ctx.Done()
	b.all.Wait()
	return nil
}
