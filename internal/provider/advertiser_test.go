package provider_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/provider"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
)

// advertises runs milan's advertiser over a cluster of one node until the test ends; what it advertises comes
// out of the channel.
func (g *gate) advertises(take func(api.Measurement) error) <-chan api.Measurement {
	g.t.Helper()
	k, err := kubernetes.NewForConfig(kubeapi.New(kubeapi.Options{}).Config())
	if err != nil {
		g.t.Fatal(err)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("8")}
	_, err = k.CoreV1().Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: amounts, Capacity: amounts, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}, metav1.CreateOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	heard := make(chan api.Measurement, 1000)
	g.broker.OnAdvertise = func(m api.Measurement) error {
		heard <- m
		return take(m)
	}
	i := inventory.New(k, inventory.Options{Logger: silent})
	a := &provider.Advertiser{
		Cluster: g.milan.ID, Key: g.milan.Key, Rotations: g.milan.Rotations, Market: g.Market, Inventory: i, Brokers: func() []transport.Broker { return []transport.Broker{g.broker} }, Log: silent, Interval: 20 * time.Millisecond,
		Sharing: func() *api.Sharing { return &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}} },
		Show:    func(context.Context, api.AdvertisementStatus, error) {},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = i.Run(ctx) })
	<-i.Synced()
	if err := a.Begin(ctx); err != nil {
		g.t.Fatal(err)
	}
	all.Go(func() { _ = a.Run(ctx) })
	g.t.Cleanup(func() { cancel(); all.Wait() })
	return heard
}

func next(t *testing.T, heard <-chan api.Measurement, what string, is func(api.Measurement) bool) api.Measurement {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case m := <-heard:
			if is(m) {
				return m
			}
		case <-deadline:
			t.Fatalf("it never advertises %s", what)
		}
	}
}

// What the gate accepted is advertised without anybody asking, and gone when it is over.
func TestAdvertisesWhatItAccepted(t *testing.T) {
	g := newGate(t, "")
	heard := g.advertises(func(api.Measurement) error { return nil })
	committed := func(m api.Measurement) bool {
		size := m.Pools[api.GeneralPool].Accounts["rome"].Commitments["r-1"]["cpu"]
		return size.String() == "2"
	}
	first := next(t, heard, "its node", func(m api.Measurement) bool { return len(m.Pools) > 0 })
	if cpu := first.Pools[api.GeneralPool].Shared["cpu"]; committed(first) || cpu.String() != "8" {
		t.Errorf("at first: %+v", first)
	}
	d := g.deal("r-1", "2")
	g.takes(d)
	if err := g.hears(d.Signed()); err != nil {
		t.Fatal(err)
	}
	next(t, heard, "what it accepted", committed)
	_ = g.hears(d.Ending(g.rome, api.ReasonReleased))
	next(t, heard, "that it is over", func(m api.Measurement) bool { return !committed(m) })
}

// The clock was a year ahead when the agent last started: what it says now counts all the same.
func TestAdvertisesAlthoughItsClockWentBack(t *testing.T) {
	g := newGate(t, "")
	theirs := api.Sequence{Incarnation: time.Now().AddDate(1, 0, 0).UnixMilli(), Number: 7}
	g.broker.OnCluster = func(id string) (api.Envelope[api.Cluster], error) {
		return api.Envelope[api.Cluster]{ID: id, Payload: api.Cluster{Sequence: theirs}}, nil
	}
	heard := g.advertises(func(m api.Measurement) error {
		if !m.Sequence.After(theirs) {
			return api.Errorf(api.CodeStaleAdvertisement, "older than what is here")
		}
		return nil
	})
	next(t, heard, "anything newer than before", func(m api.Measurement) bool { return m.Sequence.After(theirs) })
}

// The card shows how the new key follows from the old one; an agent that still, or again, has the old one shows no card.
func TestAdvertisesByItsNewestKey(t *testing.T) {
	g := newGate(t, "")
	whatever := func(api.Measurement) bool { return true }
	all := func(api.Measurement) error { return nil }
	first := g.advertises(all)
	next(t, first, "anything", whatever)
	g.milan.Rotate()
	time.Sleep(2 * time.Millisecond) // an incarnation is the millisecond of a start
	next(t, g.advertises(all), "by its new key", whatever)
	for len(first) > 0 { // what it said before the other began
		<-first
	}
	var own *market.Member
	if err := g.Market.Read(t.Context(), func(s *market.State) { own = s.Member("milan") }); err != nil {
		t.Fatal(err)
	}
	if key := g.milan.Key.Public().String(); own.Key != key || own.Card.Key != key || len(own.Card.Rotations) != 1 {
		t.Errorf("it shows %+v", own.Card)
	}
	time.Sleep(100 * time.Millisecond)
	if len(first) > 0 {
		t.Error("the old key is shown again")
	}
}
