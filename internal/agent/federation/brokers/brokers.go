// Package brokers is the controller of the Brokers that an admin adds: the brokers of this cluster besides
// the one with which the agent was started.
//
// Start at [Brokers.Reconcile]. It joins the broker that an object names, with an identity of its own, and
// adds a session with it to the open ones. From then on the rest of the agent uses that session like the
// main one. Only an admin removes a broker: one that does not answer stays. [Brokers.List] is how all
// brokers stand, the main one first.
package brokers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Options say what the controller works with.
type Options struct {
	Client client.Client
	// Namespace is the agent's. Brokers elsewhere are ignored.
	Namespace string
	// Main is the membership at the main broker. The others share its key and its store.
	Main *enrollment.Membership
	// Sessions has the session with the main broker, and gets those with the others.
	Sessions *session.Sessions
	Ledger   *exchange.Exchange
	// Catalog forgets what a broker showed once an admin removed it.
	Catalog interface{ Forget(via string) }
	// Changed asks the controller, which watches it, to look at a broker again.
	Changed *kubeobject.Trigger
	// Joined is called after each new session and each restored connection: the broker may not know what this
	// cluster has and sells.
	Joined func()
	Events events.EventRecorder
	Log    *slog.Logger
}

// Brokers is the controller.
type Brokers struct {
	Options
	ctx  context.Context // of the memberships; ends with Run
	stop context.CancelFunc

	mu      sync.Mutex
	entries map[string]*entry // by name; one for each Broker
	running sync.WaitGroup
}

// entry is a broker that was joined or is being joined. Brokers' lock protects its fields.
type entry struct {
	spec       api.BrokerSpec
	membership *enrollment.Membership // nil until it is joined
	session    *session.Session       // likewise
	err        error                  // why it is not joined
	close      context.CancelFunc
}

// New returns the controller. It works until Run ends.
func New(o Options) *Brokers {
	ctx, stop := context.WithCancel(context.Background())
	return &Brokers{Options: o, ctx: ctx, stop: stop, entries: map[string]*entry{}}
}

// Run makes the object of the main broker, if there is none, and keeps what Reconcile opens until ctx ends.
func (b *Brokers) Run(ctx context.Context) error {
	b.makeMain(ctx)
	<-ctx.Done()
	b.mu.Lock() // nothing is opened after this
	b.stop()
	b.mu.Unlock()
	b.running.Wait()
	return nil
}

// makeMain makes the object that shows the main broker. The agent works without it.
func (b *Brokers) makeMain(ctx context.Context) {
	if b.Main.NoBroker {
		return
	}
	object := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: api.MainBroker}}
	if err := b.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		b.Log.Warn("the object of the main broker could not be made", "error", err)
	}
}

// Control starts the controller of Brokers.
func (b *Brokers) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("broker").For(&api.Broker{}).WatchesRawSource(b.Changed).Complete(b)
}

// RecordConnection notes how a call at a session ended. Where that restored the connection to a
// broker, the broker may have forgotten what this cluster has and sells.
func (b *Brokers) RecordConnection(s *session.Session, err error) {
	restored := s.Connection().Record(err)
	if !session.IsBroker(s.Via) {
		return
	}
	if restored {
		b.Joined()
	}
	b.Changed.Add(b.Namespace, s.Name())
}

// Reconcile implements reconcile.Reconciler.
func (b *Brokers) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Namespace != b.Namespace {
		return ctrl.Result{}, nil
	}
	var object api.Broker
	err := b.Client.Get(ctx, request.NamespacedName, &object)
	gone := apierrors.IsNotFound(err) || err == nil && object.DeletionTimestamp != nil
	switch {
	case err != nil && !gone:
		return ctrl.Result{}, err
	case request.Name == api.MainBroker:
		b.Sessions.BrokerNamed(api.MainBroker).SetEnabled(gone || !object.Spec.Disabled)
	case gone:
		return ctrl.Result{}, b.remove(ctx, request.Name)
	default:
		b.apply(request.Name, object.Spec)
	}
	if gone {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, b.writeStatus(ctx, &object)
}

// apply makes a broker what its object says.
func (b *Brokers) apply(name string, spec api.BrokerSpec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.Main.IsCloned() {
		return
	}
	known := b.entries[name]
	if known != nil && (known.spec.URL != spec.URL || known.membership == nil && known.err != nil && known.spec != spec) {
		b.closeEntry(name)
		known = nil
	}
	if known == nil {
		ctx, cancel := context.WithCancel(b.ctx)
		known = &entry{spec: spec, close: cancel}
		b.entries[name] = known
		b.running.Go(func() { b.join(ctx, name, known, spec) })
	}
	if known.spec = spec; known.session != nil {
		known.session.SetEnabled(!spec.Disabled)
	}
}

// closeEntry ends the session with a broker. The lock is held.
func (b *Brokers) closeEntry(name string) {
	entry := b.entries[name]
	if entry == nil {
		return
	}
	entry.close()
	if entry.session != nil {
		entry.session.Switch.Set(false)
		b.Sessions.Remove(entry.session)
	}
	delete(b.entries, name)
}

// remove forgets a broker whose object is gone, and this cluster's identity there.
func (b *Brokers) remove(ctx context.Context, name string) error {
	b.mu.Lock()
	b.closeEntry(name)
	b.mu.Unlock()
	b.Catalog.Forget(session.ViaBroker(name))
	return b.Main.StoreFor(name).Drop(ctx)
}

// join joins a broker, if that has not been done, opens a session with it, and renews the certificate until
// ctx ends.
func (b *Brokers) join(ctx context.Context, name string, entry *entry, spec api.BrokerSpec) {
	log := b.Log.With("broker", name)
	var m *enrollment.Membership
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		var err error
		if m, err = b.enroll(ctx, name, spec, log); err == nil {
			break
		}
		b.mu.Lock()
		entry.err = err
		b.mu.Unlock()
		b.Changed.Add(b.Namespace, name)
		if !api.IsTemporary(err) && api.CodeOf(err) != api.CodeLedgerFull {
			return // the object or its token is wrong
		}
		select {
		case <-b.Main.Clock.After(wait/2 + rand.N(wait)): // clusters that lost a broker together do not return together
		case <-ctx.Done():
			return
		}
	}
	defer m.CloseIdleConnections()
	broker := transport.NewHTTP(m.Cluster, m.Client())
	s := session.New(session.Options{
		Via: session.ViaBroker(name), Cluster: m.Cluster, Key: b.Main.Key(), Broker: broker, Lends: true,
		Switch: m.Switch(), Memory: b.Sessions.Memory(), Clock: m.Clock,
		Greet: func(ctx context.Context) error { return session.ShowCard(ctx, b.Ledger, m.Cluster, broker) },
	})
	b.mu.Lock()
	if ctx.Err() != nil {
		b.mu.Unlock()
		return
	}
	entry.membership, entry.session, entry.err = m, s, nil
	s.SetEnabled(!entry.spec.Disabled)
	b.Sessions.Add(s)
	b.mu.Unlock()
	b.Joined()
	b.Changed.Add(b.Namespace, name)
	_ = m.Run(ctx)
	<-ctx.Done()
}

// firstTry and lastTry are the first and the last wait until a broker that could not be joined is tried again.
const firstTry, lastTry = time.Second, time.Minute

// enroll loads this cluster's identity at a broker, or joins to get one.
func (b *Brokers) enroll(ctx context.Context, name string, spec api.BrokerSpec,
	log *slog.Logger) (*enrollment.Membership, error) {
	if err := b.Check(name, spec); err != nil {
		return nil, err
	}
	m, err := enrollment.New(ctx, enrollment.Options{
		Cluster: b.Main.Cluster, Broker: name, Store: b.Main.StoreFor(name), Token: spec.Join, BrokerURL: spec.URL,
		Proxy: b.Main.Proxy, Clock: b.Main.Clock, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return m, m.Admission().Err
}

// Check reports which field of a Broker cannot be accepted. Errors: Invalid with the field.
func (b *Brokers) Check(name string, spec api.BrokerSpec) error {
	if err := market.ValidCluster("name", name); err != nil {
		return err
	}
	if name == api.MainBroker && (spec.Join != "" || spec.URL != "") {
		return api.Invalid("name", "%s is the broker that the agent was started with", name).
			Fix("give another name; or start the agent with another --join or --broker-url")
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
		address, err := url.Parse(spec.URL)
		if err != nil || address.Scheme != "https" || address.Host == "" || address.Path != "" && address.Path != "/" ||
			address.User != nil {
			return api.Invalid("url", "%.80q is not the URL of a broker", spec.URL).Fix("write https://HOST:PORT")
		}
	}
	return nil
}
