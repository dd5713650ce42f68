package session_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestRoutes(t *testing.T) {
	for via, want := range map[string]struct {
		broker bool
		name   string
	}{
		session.ViaBroker(api.MainBroker): {true, api.MainBroker},
		session.ViaBroker("eu"):           {true, "eu"},
		"milan":                           {false, "milan"},
		"broker":                          {false, "broker"},
	} {
		if broker, name := session.IsBroker(via), session.BrokerName(via); broker != want.broker || name != want.name {
			t.Errorf("%q: %v %q, want %v %q", via, broker, name, want.broker, want.name)
		}
	}
	if market.ValidCluster("cluster", session.ViaBroker("eu")) == nil {
		t.Error("a cluster may have the name of a route to a broker")
	}
}
