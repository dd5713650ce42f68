package gate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Two agents of one cluster run, because leader election failed or an admin started a second one.
// Both answer at once; together they never accept more than there is.
func TestTwoLiveAgentsAtOneGate(t *testing.T) {
	server := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "Ledger", Resource: "ledgers", Namespaced: true}}})
	ledger := func() *kube.Journal {
		c, err := client.New(server.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return kube.New(c, client.ObjectKey{Namespace: api.Namespace, Name: "ledger"}, kube.Parts)
	}
	rome, milan, clock := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan"), transporttest.NewClock()
	agents := []*testGate{open(t, ledger(), rome, milan, clock, "8"), open(t, ledger(), rome, milan, clock, "8")}
	var mu sync.Mutex
	accepted, refused := map[string]bool{}, map[string]api.Reason{}
	for _, g := range agents {
		g.broker.OnAccept = func(id, acceptance string) (transport.Reservation, error) {
			mu.Lock()
			defer mu.Unlock()
			accepted[id] = true
			return transport.Reservation{ID: id, Payload: api.Reservation{State: api.Reserved,
				Generation: 1, Acceptance: acceptance, Fence: api.Fence{Lineage: "first", Revision: 99}}}, nil
		}
		g.broker.OnRefuse = func(id string, r api.Refusal) (transport.Reservation, error) {
			mu.Lock()
			defer mu.Unlock()
			refused[id] = r.Reason
			return transport.Reservation{ID: id}, nil
		}
	}
	var all sync.WaitGroup
	for i := range 6 {
		both := transporttest.NewDeal(rome, milan, fmt.Sprintf("r-both-%d", i), "1", time.Now()).Signed()
		for n, g := range agents {
			alone := transporttest.NewDeal(rome, milan, fmt.Sprintf("r-%d-%d", n, i), "1", time.Now()).Signed()
			all.Go(func() { g.persist(both) })
			all.Go(func() { g.persist(alone) })
		}
	}
	all.Wait()
	if len(accepted) != 8 || len(refused) != 10 {
		t.Errorf("of 18 single CPUs, and 8 to lend, %d were accepted and %d refused", len(accepted), len(refused))
	}
	for id, reason := range refused {
		if accepted[id] || reason != api.ReasonInsufficient {
			t.Errorf("%s: accepted %v, refused for %s", id, accepted[id], reason)
		}
	}
	after := open(t, ledger(), rome, milan, clock, "8")
	after.left(0)
	for id := range accepted {
		after.holds(id, api.Reserved, "")
	}
}

// persist tries again after any error, as an agent's queue does, until there is none.
func (g *testGate) persist(shown *transport.Reservation) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var record *market.Reservation
		err := g.Market.Read(ctx, func(s *market.State) { record = s.Reservation(shown.ID) })
		if err == nil {
			err = g.Sync(ctx, shown, record)
		}
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			g.t.Errorf("%s: %v", shown.ID, err)
			return
		}
	}
}
