package sharing_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lender is milan, which has a Ledger and a broker that the test plays: onCluster is what that says of a cluster.
type lender struct {
	t           *testing.T
	rome, milan *transporttest.Party
	market      *exchange.Exchange
	onCluster   func(id string) (api.Envelope[api.Cluster], error)
	onCard      func(signed string) error // nil takes all
	client      client.Client             // of a cluster with one SharingPolicy, which shares all
	policy      *sharing.Policy           // of the newest advertiser
	advertiser  *sharing.Advertiser       // the newest
	more        []*corev1.Node            // of the cluster
}

func newLender(t *testing.T) *lender {
	t.Helper()
	l := &lender{
		t: t, client: newClient(t), rome: transporttest.NewParty(t,
			"rome"), milan: transporttest.NewParty(t, "milan"),
		market: exchangetest.Open(t, nil, exchange.Options{Self: "milan", TickEvery: time.Millisecond}),
	}
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	if err := l.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	return l
}

// newClient returns the client of an API server that has the kinds of this package.
func newClient(t *testing.T) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := api.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
		{GroupVersion: api.GroupVersion, Kind: "Advertisement", Resource: "advertisements", Namespaced: true, Status: true},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newInventory runs the inventory of a cluster of one node until the test ends.
func newInventory(t *testing.T, more ...*corev1.Node) *inventory.Inventory {
	t.Helper()
	k, err := kubernetes.NewForConfig(kubeapi.New(kubeapi.Options{}).Config())
	if err != nil {
		t.Fatal(err)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("8"), "example.com/npu": resource.MustParse("4")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
		Labels: map[string]string{"example.com/npu.model": "X1"}}, Status: corev1.NodeStatus{
		Allocatable: amounts, Capacity: amounts,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	for _, one := range append([]*corev1.Node{node}, more...) {
		if _, err = k.CoreV1().Nodes().Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	i := inventory.New(k, inventory.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	runs.Go(func() { _ = i.Run(ctx) })
	t.Cleanup(func() { cancel(); runs.Wait() })
	<-i.Synced()
	return i
}

// advertises runs milan's advertiser over a cluster of one node until the test ends. Each advertisement that
// it sends comes out of the channel; take answers it.
func (l *lender) advertises(take func(api.Measurement) error) <-chan api.Measurement {
	l.t.Helper()
	i := newInventory(l.t, l.more...)
	sent := make(chan api.Measurement, 1000)
	// An advertiser that runs already keeps the answers that it has.
	broker := &transporttest.Broker{OnCluster: l.onCluster, OnPutCard: l.onCard, OnAdvertise: func(m api.Measurement) error {
		sent <- m
		return take(m)
	}}
	log := slog.New(slog.DiscardHandler)
	policy := sharing.NewPolicy(sharing.PolicyOptions{Client: l.client, Engine: match.New()})
	if err := policy.Load(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	a := sharing.New(sharing.Options{
		Clock:  clock.RealClock{},
		Client: l.client, Object: client.ObjectKey{Namespace: api.Namespace,
			Name: "cluster"}, Market: l.market, Inventory: i, Policy: policy, Log: log, Schedule: sharing.Schedule{Interval: 20 * time.Millisecond},
		Card:    sharing.CardOptions{Cluster: l.milan.ID, Key: l.milan.Key, Rotations: l.milan.Rotations},
		Outlets: func() []transport.Outlet { return []transport.Outlet{{Broker: broker, Knows: knowsAll}} },
	})
	l.policy, l.advertiser = policy, a
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	if err := a.Begin(ctx); err != nil {
		l.t.Fatal(err)
	}
	all.Go(func() { _ = a.Run(ctx) })
	l.t.Cleanup(func() { cancel(); all.Wait() })
	return sent
}

func knowsAll(*market.Reservation) bool { return true }

// do changes the Ledger.
func (l *lender) do(c market.Command) {
	l.t.Helper()
	if _, err := l.market.Do(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

// accepts makes the Ledger hold a reservation of rome's that milan accepted and the broker recorded.
func (l *lender) accepts(id, cpu string) {
	l.t.Helper()
	shown := transporttest.NewDeal(l.rome, l.milan, id, cpu, l.market.Now().Go()).Signed()
	assignment := l.rome.Assignment(*shown)
	size, err := amounts.ParseRequest("resources", assignment.Resources)
	if err != nil {
		l.t.Fatal(err)
	}
	l.do(market.Admit{
		Assignment: assignment, Size: size, Document: shown.Payload.Assignment, Acceptance: l.milan.Agree(*shown),
		BindsUntil: market.At(assignment.Expires.Time), Fence: shown.Payload.Fence,
	})
	l.do(market.Commit{ID: id, Generation: shown.Payload.Generation, Fence: shown.Payload.Fence})
}

// next returns the next advertisement for which is holds.
func next(t *testing.T, sent <-chan api.Measurement, what string, is func(api.Measurement) bool) api.Measurement {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case m := <-sent:
			if is(m) {
				return m
			}
		case <-deadline:
			t.Fatalf("it never advertises %s", what)
		}
	}
}

// A reservation that the gate accepted is advertised at once, and no longer when it is over.
func TestAdvertisesWhatItAccepted(t *testing.T) {
	l := newLender(t)
	sent := l.advertises(func(api.Measurement) error { return nil })
	committed := func(m api.Measurement) bool {
		size := m.Pools[api.GeneralPool].Accounts["rome"].Commitments["r-1"]["cpu"]
		return size.String() == "2"
	}
	first := next(t, sent, "its node", func(m api.Measurement) bool { return len(m.Pools) > 0 })
	if cpu := first.Pools[api.GeneralPool].Shared["cpu"]; committed(first) || cpu.String() != "8" {
		t.Errorf("at first: %+v", first)
	}
	l.accepts("r-1", "2")
	next(t, sent, "what it accepted", committed)
	l.do(market.Release{ID: "r-1", By: "milan", Reason: api.ReasonReleased})
	l.do(market.Free{ID: "r-1", Provider: "milan"})
	next(t, sent, "that it is over", func(m api.Measurement) bool { return !committed(m) })
}

// The clock was a year ahead when the agent last started. The broker still takes its new advertisements.
func TestAdvertisesAlthoughItsClockWentBack(t *testing.T) {
	l := newLender(t)
	theirs := api.Sequence{Incarnation: time.Now().AddDate(1, 0, 0).UnixMilli(), Number: 7}
	l.onCluster = func(id string) (api.Envelope[api.Cluster], error) {
		return api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Sequence: theirs}}, nil
	}
	sent := l.advertises(func(m api.Measurement) error {
		if !m.Sequence.After(theirs) {
			return api.Errorf(api.CodeStaleAdvertisement, "older than the newest")
		}
		return nil
	})
	next(t, sent, "anything newer than before", func(m api.Measurement) bool { return m.Sequence.After(theirs) })
}

// The card shows how the new key follows from the old one. An agent that still has the old key shows no card.
func TestAdvertisesByItsNewestKey(t *testing.T) {
	l := newLender(t)
	anything := func(api.Measurement) bool { return true }
	all := func(api.Measurement) error { return nil }
	first := l.advertises(all)
	next(t, first, "anything", anything)
	l.milan.Rotate()
	time.Sleep(2 * time.Millisecond) // an incarnation is the millisecond of a start
	next(t, l.advertises(all), "by its new key", anything)
	var own *market.Member
	if err := l.market.Read(t.Context(), func(s *market.State) { own = s.Member("milan") }); err != nil {
		t.Fatal(err)
	}
	if key := l.milan.Key.Public().String(); own.Key != key || own.Card.Key != key || len(own.Card.Rotations) != 1 {
		t.Errorf("it shows %+v", own.Card)
	}
	for len(first) > 0 { // sent before the other began
		<-first
	}
	time.Sleep(100 * time.Millisecond)
	if len(first) > 1 { // one may have been under way
		t.Error("the old key is shown again")
	}
}

// The card says how many namespaces of a consumer can be mapped: as the policy says, or the default.
func TestCardSaysHowManyNamespaces(t *testing.T) {
	for most, want := range map[int32]int32{0: api.DefaultNamespaces, 500: 500} {
		l := newLender(t)
		var policy api.SharingPolicy
		if err := l.client.Get(t.Context(), client.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		if most > 0 {
			policy.Spec.Namespaces = &api.NamespacePolicy{Max: most}
		}
		if err := l.client.Update(t.Context(), &policy); err != nil {
			t.Fatal(err)
		}
		sent := l.advertises(func(api.Measurement) error { return nil })
		next(t, sent, "anything", func(api.Measurement) bool { return true })
		var own *market.Member
		if err := l.market.Read(t.Context(), func(s *market.State) { own = s.Member("milan") }); err != nil {
			t.Fatal(err)
		}
		if own.Card == nil || own.Card.MaxNamespaces != want {
			t.Errorf("namespaces.max %d: it shows %+v", most, own.Card)
		}
	}
}

// An admin names the label of a vendor that the agent does not know. Its values come onto the card, and its devices
// into the advertisement.
func TestLabelsOfAnotherVendor(t *testing.T) {
	for _, labels := range [][]string{nil, {"example.com/npu.model"}} {
		l := newLender(t)
		var policy api.SharingPolicy
		if err := l.client.Get(t.Context(), client.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		policy.Spec.GPULabels = labels
		if err := l.client.Update(t.Context(), &policy); err != nil {
			t.Fatal(err)
		}
		cards := make(chan api.Card, 1000)
		l.onCard = func(signed string) error {
			card, _, err := trust.Open(signed)
			if err == nil {
				cards <- *card
			}
			return err
		}
		sent := l.advertises(func(api.Measurement) error { return nil })
		next(t, sent, "the devices", func(m api.Measurement) bool {
			npus := m.Pools[api.GeneralPool].Shared["example.com/npu"]
			return npus.Value() == 4
		})
		if got := (<-cards).Properties.GPUs; len(labels) == 0 && len(got) > 0 ||
			len(labels) > 0 && !slices.Equal(got, []string{"X1"}) {
			t.Errorf("with gpuLabels %v, the card says %v", labels, got)
		}
	}
}

// A hub sells what its provider's Liqo says, and no more than both sides signed: of each virtual node, the sum of the
// bound reservations to lend on. It sells nothing of a node that has a reservation of another kind, too.
func TestAHubSellsNoMoreThanWasSigned(t *testing.T) {
	l := newLender(t)
	borrowed := func(provider, id string, state api.State, relend bool, cpu int64) *market.Reservation {
		r := &market.Reservation{ID: id, State: state, Consumer: "milan", Provider: provider, Pool: api.GeneralPool,
			Relend: relend, Size: amounts.List{{Resource: "cpu", Value: cpu * 1000}}, Assignment: "assignment",
			Until: market.At(l.market.Now().Go().Add(time.Hour))}
		l.do(market.Note{Reservation: r})
		return r
	}
	lies := corev1.ResourceList{"cpu": resource.MustParse("1000"), "memory": resource.MustParse("1Ti")}
	for _, r := range []*market.Reservation{
		borrowed("oslo", "r-1", api.Active, true, 2), borrowed("turin", "r-2", api.Active, true, 16),
	} {
		l.more = append(l.more, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Slice(),
			Labels: map[string]string{"liqo.io/type": "virtual-node", "lent": "on"}}, Status: corev1.NodeStatus{
			Allocatable: lies, Capacity: lies,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}})
	}
	borrowed("oslo", "r-3", api.Active, true, 1)
	borrowed("oslo", "r-4", api.Held, true, 4) // not bound
	borrowed("oslo", "r-5", api.Released, true, 8)
	borrowed("turin", "r-6", api.Active, false, 1)
	var policy api.SharingPolicy
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: "default"}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Pools[0].VirtualNodes = &api.VirtualNodes{
		Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}
	if err := l.client.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	sent := l.advertises(func(api.Measurement) error { return nil })
	m := next(t, sent, "what it borrowed", func(m api.Measurement) bool { return len(m.Pools) > 0 })
	pool := m.Pools[api.GeneralPool]
	if cpu, memory := pool.Shared.Cpu().String(), pool.Shared.Memory(); cpu != "3" || !memory.IsZero() ||
		pool.Allocatable.Cpu().String() != "3" {
		t.Errorf("3 CPUs were signed, and it sells %v of %v", pool.Shared, pool.Allocatable)
	}
}
