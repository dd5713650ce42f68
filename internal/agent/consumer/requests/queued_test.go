package requests_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// running is a controller that runs over an API server.
type running struct {
	*borrower
	client.Client
	changed *kubeobject.Trigger
}

// runController starts the controller of a borrower. It ends with the test.
func runController(t testing.TB, b *borrower) *running {
	t.Helper()
	m, err := ctrl.NewManager(kubeapi.New(kubeapi.Options{Types: ourKinds()}).Config(), ctrl.Options{
		Scheme: scheme.New(), Metrics: server.Options{BindAddress: "0"}, Controller: scheme.Controllers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	changed := &kubeobject.Trigger{}
	r := requests.New(requests.Options{Client: m.GetClient(), Market: b.Market, Events: events.NewFakeRecorder(100_000),
		Borrower: b.Borrower, Places: b.places, Changed: changed})
	if err := r.Control(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if !m.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not start")
	}
	return &running{borrower: b, Client: m.GetClient(), changed: changed}
}

// make creates requests of a namespace at the main broker.
func (r *running) make(namespace string, n int) {
	r.t.Helper()
	r.makeAt(namespace, "", n)
}

// makeAt creates requests of a namespace at a broker.
func (r *running) makeAt(namespace, broker string, n int) {
	r.t.Helper()
	for i := range n {
		o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("r", i)},
			Spec: api.ResourceRequestSpec{Request: transporttest.Request("1"), Broker: broker}}
		if err := r.Create(context.Background(), o); err != nil {
			r.t.Fatal(err)
		}
	}
}

// waitFor waits until a condition holds of all requests.
func (r *running) waitFor(what string, holds func([]api.ResourceRequest) bool) []api.ResourceRequest {
	r.t.Helper()
	var list api.ResourceRequestList
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err := r.List(context.Background(), &list); err != nil {
			r.t.Fatal(err)
		}
		if holds(list.Items) {
			return list.Items
		}
		if time.Now().After(end) {
			r.t.Fatalf("not %s: %+v", what, list.Items[0].Status)
		}
	}
}

// reasons counts requests by the reason of their condition Reserved, "" without one.
func reasons(all []api.ResourceRequest) map[string]int {
	out := map[string]int{}
	for _, o := range all {
		reason := ""
		if c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReserved); c != nil {
			reason = c.Reason
		}
		out[reason]++
	}
	return out
}

// Requests that wait for a busy agent say so, and for how many, before they are served. Each is written
// once, though all others move on. What came of it replaces that.
func TestARequestShowsThatItWaits(t *testing.T) {
	const count = 40
	b := newBorrower(t)
	answers, asked := make(chan struct{}), make(chan struct{}, requests.AtOnePlace)
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) {
		select {
		case asked <- struct{}{}:
		default: // all workers have asked
		}
		<-answers
		return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "away")
	}
	answer := sync.OnceFunc(func() { close(answers) })
	r := runController(t, b)
	t.Cleanup(answer) // before the controller is awaited
	for i := range requests.AtOnePlace {
		r.make(fmt.Sprint("busy-", i), 1)
		<-asked // from the last one on, no worker writes
	}
	shown := func(all []api.ResourceRequest, of ...string) int {
		return reasons(slices.DeleteFunc(slices.Clone(all), func(o api.ResourceRequest) bool {
			return !slices.Contains(of, o.Namespace)
		}))["WaitsForTurn"]
	}
	r.make("noisy", count)
	r.waitFor("shown as waiting", func(all []api.ResourceRequest) bool { return shown(all, "noisy") == count })
	r.make("quiet", 1)
	before := map[string]string{}
	for _, o := range r.waitFor("shown for another namespace", func(all []api.ResourceRequest) bool {
		return shown(all, "noisy", "quiet") == count+1
	}) {
		before[o.Namespace+o.Name] = o.ResourceVersion
		waits := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
		if waits == nil {
			continue
		}
		if o.Status.Message != waits.Message || !strings.Contains(waits.Message, "it waits for its turn: at ") {
			t.Errorf("%s/%s says %+v", o.Namespace, o.Name, o.Status)
		}
		// One of the others is before it at the broker, and none while it waits for a worker.
		if o.Namespace == "quiet" && !strings.Contains(waits.Message, " 1 other requests") &&
			!strings.Contains(waits.Message, " 0 other requests") {
			t.Errorf("the only one of its namespace says %s", waits.Message)
		}
	}
	for _, o := range r.waitFor("unchanged", func([]api.ResourceRequest) bool { return true }) {
		if o.ResourceVersion != before[o.Namespace+o.Name] {
			t.Errorf("%s/%s was written again: %s", o.Namespace, o.Name, o.Status.Message)
		}
	}
	answer()
	r.waitFor("served", func(all []api.ResourceRequest) bool {
		return reasons(all)[string(api.CodeUnavailable)] == requests.AtOnePlace+count+1
	})
}

// A broker that does not answer for one request holds up no other.
func TestASlowAnswerHoldsUpNoOther(t *testing.T) {
	b := newBorrower(t)
	answers, asked := make(chan struct{}), make(chan struct{}, 1)
	var calls atomic.Int64
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) {
		if calls.Add(1) == 1 {
			asked <- struct{}{}
			<-answers
		}
		return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "away")
	}
	r := runController(t, b)
	t.Cleanup(func() { close(answers) }) // before the controller is awaited
	r.make("slow", 1)
	<-asked
	r.make("quick", 5)
	r.waitFor("served", func(all []api.ResourceRequest) bool {
		return reasons(all)[string(api.CodeUnavailable)] == 5
	})
}

// places are brokers, and sellers whose names begin with via-.
type places func(api.ResourceRequestSpec) (string, transport.Broker, error)

func (p places) Choose(
	_ context.Context, s api.ResourceRequestSpec, _ *market.Reservation,
) (string, transport.Broker, error) {
	return p(s)
}

func (p places) Find(_ context.Context, s api.ResourceRequestSpec, _ *market.Reservation) (string, bool) {
	return s.Broker, strings.HasPrefix(s.Broker, "via-")
}

func (p places) Count() int { return 4 }

// Two brokers and a seller do not answer, each for many requests. A request at another broker is served, and one
// that waits says so. Once a broker answers, all others are served too.
func TestAPartyThatNeverAnswersTakesAFewWorkers(t *testing.T) {
	const count = 3 * requests.AtOnePlace
	b, answers := newBorrower(t), make(chan struct{})
	var busy atomic.Int64
	stalls := &transporttest.Broker{OnReserve: func(string, api.Request) (transport.Reservation, error) {
		busy.Add(1)
		<-answers
		return transport.Reservation{}, api.Errorf(api.CodeUnavailable, "away")
	}}
	d := transporttest.NewDeal(b.rome, b.milan, "r-1", "1", b.now())
	b.offers(d.Shown)
	b.takes(d)
	b.places = places(func(s api.ResourceRequestSpec) (string, transport.Broker, error) {
		switch {
		case s.Broker == "":
			return "", b.broker, nil
		case strings.HasPrefix(s.Broker, "via-"):
			busy.Add(1)
			<-answers
			return "", nil, api.Errorf(api.CodeUnavailable, "away")
		}
		return session.ViaBroker(s.Broker), stalls, nil
	})
	r := runController(t, b)
	answer := sync.OnceFunc(func() { close(answers) })
	t.Cleanup(answer) // before the controller is awaited
	for _, at := range []string{"stalled", "also-stalled", "via-oslo"} {
		for i := range 3 {
			r.makeAt(fmt.Sprint("of-", at, i), at, count/3)
		}
	}
	r.waitFor("shown as waiting", func(all []api.ResourceRequest) bool {
		return reasons(all)["WaitsForTurn"] >= 3*count-3*requests.AtOnePlace
	})
	r.make("healthy", 1)
	r.waitFor("held at the other broker", func(all []api.ResourceRequest) bool {
		return slices.ContainsFunc(all, func(o api.ResourceRequest) bool {
			return o.Namespace == "healthy" && o.Status.State == api.Held
		})
	})
	if most := int64(3 * requests.AtOnePlace); busy.Load() != most {
		t.Errorf("%d calls wait for an answer, want %d", busy.Load(), most)
	}
	answer()
	r.waitFor("served", func(all []api.ResourceRequest) bool {
		return reasons(all)[string(api.CodeUnavailable)] == 3*count
	})
}

// A few requests of a namespace wait for the answer of a provider at a time, so that its holds leave those of others
// their turn. The next one is held once one is answered, or has waited for so long that it may never be.
func TestANamespaceIsHeldAFewAtATime(t *testing.T) {
	const count = 3 * requests.Unanswered
	b := newBorrower(t)
	var deals sync.Map // by ID
	b.broker.OnReserve = func(key string, _ api.Request) (transport.Reservation, error) {
		d := transporttest.NewDeal(b.rome, b.milan, "r-"+key, "1", b.now())
		deals.Store("r-"+key, d)
		return *d.Shown(), nil
	}
	b.broker.OnConfirm = func(id, assignment string) (transport.Reservation, error) {
		d, _ := deals.Load(id)
		return *d.(*transporttest.Deal).SignedAs(assignment), nil
	}
	r := runController(t, b)
	in := func(namespace string, state api.State, want int) func([]api.ResourceRequest) bool {
		return func(all []api.ResourceRequest) bool {
			got := 0
			for _, o := range all {
				if o.Namespace == namespace && o.Status.State == state {
					got++
				}
			}
			return got == want
		}
	}
	r.make("noisy", count)
	all := r.waitFor("held as many as may be", in("noisy", api.Held, requests.Unanswered))
	r.make("quiet", 1)
	r.waitFor("held for another namespace", in("quiet", api.Held, 1))

	for _, o := range all {
		if o.Status.State != api.Held {
			continue
		}
		id := o.Status.Reservation
		d, _ := deals.Load(id)
		var record *market.Reservation
		if err := b.Market.Read(t.Context(), func(s *market.State) { record = s.Reservation(id) }); err != nil {
			t.Fatal(err)
		}
		wish := requests.WishOf(&o)
		if err := b.Sync(t.Context(), d.(*transporttest.Deal).Reserved(""), record, &wish); err != nil {
			t.Fatal(err)
		}
		r.changed.Add(o.Namespace, o.Name)
		break
	}
	r.waitFor("reserved", in("noisy", api.Reserved, 1))
	r.waitFor("held in its place", in("noisy", api.Held, requests.Unanswered))

	b.move(requests.AnswerWithin + time.Second)
	for _, o := range all {
		r.changed.Add(o.Namespace, o.Name)
	}
	r.waitFor("held beside those without an answer", in("noisy", api.Held, 2*requests.Unanswered))
}
