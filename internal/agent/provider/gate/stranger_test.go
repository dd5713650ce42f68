package gate_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The key of a cluster that asks for the first time is pinned only if the policy allows the
// request. Otherwise a broker could fill the Ledger with clusters that it invents.
func TestStrangersWhoAreRefusedAreForgotten(t *testing.T) {
	g := newGate(t, "8")
	g.measure("8", func(m *api.Measurement) { m.Terms.Allow = `consumer.cluster == "oslo"` })
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) { return transport.Reservation{}, nil }
	g.broker.OnAccept = func(id, acceptance string) (transport.Reservation, error) {
		return transport.Reservation{ID: id, Payload: api.Reservation{State: api.Reserved,
			Generation: 1, Acceptance: acceptance}}, nil
	}
	known := func() (all []string) {
		if err := g.Market.Read(context.Background(), func(s *market.State) {
			for _, m := range s.Members() {
				all = append(all, m.Cluster)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for i := range 10 {
		stranger := transporttest.NewParty(t, fmt.Sprint("stranger-", i))
		d := transporttest.NewDeal(stranger, g.milan, fmt.Sprint("r-", i), "1", g.now())
		if err := g.hears(d.Signed()); err != nil {
			t.Fatal(err)
		}
		if r := g.ours(fmt.Sprint("r-", i)); r != nil {
			t.Fatalf("let in: %+v", r)
		}
	}
	if all := known(); len(all) != 0 {
		t.Errorf("of those who were refused it remembers %v", all)
	}
	d := transporttest.NewDeal(transporttest.NewParty(t, "oslo"), g.milan, "r-oslo", "1", g.now())
	if err := g.hears(d.Signed()); err != nil {
		t.Fatal(err)
	}
	if all := known(); len(all) != 1 || all[0] != "oslo" || g.ours("r-oslo") == nil {
		t.Errorf("of those who were let in it remembers %v", all)
	}
}
