package route_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestRoutes(t *testing.T) {
	for via, want := range map[string]struct {
		broker bool
		name   string
	}{
		route.ToBroker(api.MainBroker): {true, api.MainBroker},
		route.ToBroker("eu"):           {true, "eu"},
		"milan":                        {false, "milan"},
		"broker":                       {false, "broker"},
	} {
		if broker, name := route.IsBroker(via), route.BrokerName(via); broker != want.broker || name != want.name {
			t.Errorf("%q: %v %q, want %v %q", via, broker, name, want.broker, want.name)
		}
	}
	if market.ValidCluster("cluster", route.ToBroker("eu")) == nil {
		t.Error("a cluster may have the name of a route to a broker")
	}
}
