package brokers

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
)

// room is the controller of a cluster that joined one broker.
type room struct {
	*Brokers
	t         *testing.T
	events    *events.FakeRecorder
	mu        sync.Mutex
	joined    int      // how often Joined was called
	forgotten []string // what the catalog forgot
	called    []string // the hosts for which a proxy was looked for
}

// Forget is the catalog's.
func (r *room) Forget(via string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = append(r.forgotten, via)
}

// joins returns how often Joined was called.
func (r *room) joins() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joined
}

// findProxy finds none, and notes for which host.
func (r *room) findProxy(to *http.Request) (*url.URL, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called = append(r.called, to.URL.Host)
	return nil, nil
}

func newRoom(t *testing.T) *room {
	t.Helper()
	return newRoomWith(t, newToken(t, servertest.Start(t, servertest.Options{})))
}

// newRoomWith makes the room of a cluster that has a join token of its main broker.
func newRoomWith(t *testing.T, token string) *room {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log := slog.New(slog.DiscardHandler)
	r := &room{t: t, events: events.NewFakeRecorder(100)}
	m, err := enrollment.New(ctx, enrollment.Options{Cluster: "rome",
		Store: store.InDir(t.TempDir()), Token: token, Log: log, Proxy: r.findProxy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "Broker", Resource: "brokers", Namespaced: true, Status: true}}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	open := &session.Sessions{}
	open.Add(session.New(session.Options{Cluster: "rome",
		Key: m.Key(), Broker: transport.NewHTTP("rome", m.Client()), Lends: true, Switch: m.Switch()}))
	r.Brokers = New(Options{
		Client: c, Namespace: "default", Main: m, Sessions: open, Ledger: exchangetest.Open(t,
			nil, exchange.Options{Self: "rome"}),
		Catalog: r, Changed: &kubeobject.Trigger{}, Events: r.events, Log: log,
		Joined: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.joined++
		},
	})
	running := make(chan error, 1)
	go func() { running <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-running; err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: api.MainBroker}, &api.Broker{})
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the agent makes no object of its main broker: %v", err)
		}
	}
	return r
}

func newToken(t *testing.T, f *servertest.Federation) string {
	t.Helper()
	token, err := f.Operator.CreateToken(t.Context(), "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	return token.Token
}

// put makes a Broker what an admin wants.
func (r *room) put(name string, spec api.BrokerSpec) {
	r.t.Helper()
	object := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	err := r.Client.Get(r.t.Context(), client.ObjectKeyFromObject(object), object)
	if object.Spec = spec; err != nil {
		err = r.Client.Create(r.t.Context(), object)
	} else {
		err = r.Client.Update(r.t.Context(), object)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// await reconciles a Broker until its condition has a reason.
func (r *room) await(name, reason string) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r.reconcile(name)
		var object api.Broker
		if err := r.Client.Get(r.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &object); err != nil {
			r.t.Fatal(err)
		}
		c := meta.FindStatusCondition(object.Status.Conditions, api.ConditionConnected)
		if c != nil && c.Reason == reason {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s is %+v, want %s", name, c, reason)
		}
	}
}

func (r *room) reconcile(name string) {
	r.t.Helper()
	if _, err := r.Reconcile(r.t.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: name}}); err != nil {
		r.t.Fatal(err)
	}
}

// An admin adds a broker, disables it, enables it and removes it. It does not matter that it does not answer
// in between.
func TestABroker(t *testing.T) {
	r := newRoom(t)
	north := servertest.Start(t, servertest.Options{})
	r.put("north", api.BrokerSpec{Join: newToken(t, north)})
	r.reconcile("north")
	for end := time.Now().Add(time.Minute); r.Sessions.BrokerNamed("north") == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("there is no session")
		}
	}
	r.mu.Lock()
	if !slices.Contains(r.called, strings.TrimPrefix(north.URL, "https://")) {
		t.Errorf("it looked for a proxy to %q only", r.called)
	}
	r.mu.Unlock()
	session := r.Sessions.BrokerNamed("north")
	r.await("north", "Joining") // nothing watches it here, so that it has not answered
	session.Connection().Record(nil)
	r.await("north", "Connected")
	for end := time.Now().Add(time.Minute); r.joins() == 0; time.Sleep(5 * time.Millisecond) { // after it has a session
		if time.Now().After(end) {
			t.Fatal("Joined was not called")
		}
	}
	r.put("north", api.BrokerSpec{Disabled: true})
	r.await("north", "Disabled")
	if len(r.Sessions.Brokers()) != 1 {
		t.Error("a disabled broker is asked")
	}
	r.put("north", api.BrokerSpec{})
	r.await("north", "Connected")
	if r.Sessions.BrokerNamed("north") != session {
		t.Error("it has another session")
	}
	known, err := r.List(t.Context())
	if err != nil || len(known) != 2 || known[0].ID != api.MainBroker ||
		known[1].ID != "north" || known[1].Payload.LastHeard.IsZero() {
		t.Errorf("it lists %+v, %v", known, err)
	}
	if err := r.Client.Delete(t.Context(),
		&api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "north"}}); err != nil {
		t.Fatal(err)
	}
	r.reconcile("north")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Sessions.BrokerNamed("north") != nil || !slices.Equal(r.forgotten, []string{"broker/north"}) || r.joined != 1 {
		t.Errorf("after it was removed: session %v, forgotten %q, joined %d times",
			r.Sessions.BrokerNamed("north"), r.forgotten, r.joined)
	}
	if id, err := r.Main.StoreFor("north").Load(t.Context()); err != nil || len(id.CertPEM) > 0 {
		t.Errorf("its identity stays: %v", err)
	}
}

// A broker that cannot be joined says why, and is joined as soon as its object names a token.
func TestABrokerWithoutAToken(t *testing.T) {
	r := newRoom(t)
	r.put("north", api.BrokerSpec{URL: "https://127.0.0.1:1"})
	r.await("north", "NotJoined")
	r.put("north", api.BrokerSpec{Join: newToken(t, servertest.Start(t, servertest.Options{}))})
	r.await("north", "Joining")
	for end := time.Now().Add(time.Minute); r.Sessions.BrokerNamed("north") == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not joined")
		}
	}
}

// The object of the main broker can only disable it.
func TestTheMainBroker(t *testing.T) {
	r := newRoom(t)
	r.put(api.MainBroker, api.BrokerSpec{Disabled: true})
	r.await(api.MainBroker, "Disabled")
	if len(r.Sessions.Brokers()) != 0 {
		t.Error("it is asked although it is disabled")
	}
	known, err := r.List(t.Context())
	if err != nil || len(known) != 1 || known[0].ID != api.MainBroker ||
		!known[0].Payload.Spec.Disabled || len(known[0].Payload.Status.Conditions) != 1 {
		t.Errorf("it lists %+v, %v", known, err)
	}
	if err := r.Client.Delete(t.Context(),
		&api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: api.MainBroker}}); err != nil {
		t.Fatal(err)
	}
	r.reconcile(api.MainBroker)
	if len(r.Sessions.Brokers()) != 1 {
		t.Error("without an object it stays disabled")
	}
	for name, spec := range map[string]api.BrokerSpec{
		"a token for main":  {Join: "x"},
		"a URL for main":    {URL: "https://127.0.0.1:1"},
		"a URL with a path": {URL: "https://127.0.0.1:1/x"},
	} {
		broker := api.MainBroker
		if name == "a URL with a path" {
			broker = "north"
		}
		if err := r.Check(broker, spec); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cluster that has not joined its main broker shows why, in the object that the agent makes and in an Event, once.
func TestMainWithoutAToken(t *testing.T) {
	for token, want := range map[string]string{"": api.ReasonWaitsForToken, "bourse.x": api.ReasonJoinRefused} {
		r := newRoomWith(t, token)
		r.await(api.MainBroker, want)
		r.reconcile(api.MainBroker)
		if event := <-r.events.Events; !strings.Contains(event, want) {
			t.Errorf("the Event of %s is %q", want, event)
		}
		if n := len(r.events.Events); n != 0 {
			t.Errorf("%d Events more", n)
		}
	}
}
