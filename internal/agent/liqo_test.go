package agent

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/peering/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Without Liqo other rooms get nothing to call, and the doctor looks whether Liqo is there, unless it is off.
func TestLiqoRooms(t *testing.T) {
	types := []kubeapi.Type{{GroupVersion: corev1.SchemeGroupVersion, Kind: "Node", Resource: "nodes"}}
	for _, kind := range []string{"ProviderInstruction", "Advertisement", "Peer", "Peering", "Broker", "Offer"} {
		types = append(types, kubeapi.Type{
			GroupVersion: api.GroupVersion, Kind: kind, Resource: strings.ToLower(kind) + "s", Namespaced: true,
		})
	}
	log := slog.New(slog.DiscardHandler)
	config := kubeapi.New(kubeapi.Options{Types: types}).Config()
	m, err := scheme.NewManager(config, "bourse", false, log)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		off    bool
		liqo   *liqowatch.Watch
		checks int
	}{
		"Liqo is off":     {true, nil, 1},
		"there is no one": {false, nil, 3},
		"there is one":    {false, &liqowatch.Watch{}, 7},
	} {
		o := settings.Options{Kubernetes: config, Liqo: settings.Liqo{Off: c.off, Gateway: "outbound"}, Log: log}
		o.Member.ClusterID = "milan"
		s, err := settings.Parse(o)
		if err != nil {
			t.Fatal(err)
		}
		rooms := newLiqoRooms(liqoOptions{
			Manager: m, Settings: s, Liqo: c.liqo, Addresses: peeraddress.Anywhere(), Policy: sharing.NewPolicy(sharing.PolicyOptions{}),
			Peers: peers.New(peers.Options{}), Peerings: &kubeobject.Trigger{},
			Relay: session.Relay{
				Ledger: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}), Sessions: &session.Sessions{},
			},
		})
		if rooms.Pools == nil {
			t.Errorf("%s: nothing plans pools", name)
		}
		if len(rooms.Checks) != c.checks {
			t.Errorf("%s: %d checks, want %d", name, len(rooms.Checks), c.checks)
		}
		used := rooms.FillCard != nil && rooms.CheckReach != nil && rooms.CheckBorrow != nil && rooms.Freed != nil &&
			rooms.Follow != nil && rooms.Joins && rooms.Volumes != nil &&
			rooms.Liqo != nil && len(rooms.Run) == 3 && len(rooms.Controllers) == 4
		unused := rooms.FillCard == nil && rooms.CheckReach == nil && rooms.CheckBorrow == nil && rooms.Freed == nil &&
			rooms.Follow == nil && !rooms.Joins && rooms.Volumes == nil &&
			rooms.Liqo == nil && rooms.Run == nil && rooms.Controllers == nil
		if c.liqo != nil && !used || c.liqo == nil && !unused {
			t.Errorf("%s: %+v", name, rooms)
		}
	}
}
