package gate_test

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What a consumer says that it lends on is accepted only where the policy allows that. The Ledger
// remembers it.
func TestLendsOn(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		g := newGate(t, "")
		g.measure("8", func(m *api.Measurement) { m.Terms.Relend = allowed })
		d := g.deal("r-1", "2")
		a := g.rome.Assignment(*d.Shown())
		a.Relend = true
		signed := d.SignedAs(g.rome.Sign(api.DocumentAssignment, a))
		if !allowed {
			g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
				return *d.Over(api.Failed, api.ReasonNotAccepted), nil
			}
			g.heard(signed, "Refuse r-1 "+string(api.ReasonPolicy))
			continue
		}
		g.takes(d)
		g.heard(signed, "Accept r-1")
		if r := g.ours("r-1"); r == nil || !r.Relend {
			t.Errorf("the Ledger has %+v", r)
		}
	}
}

// What nobody signed for is lent, and no offer sells it.
func TestSellsNothingUnverified(t *testing.T) {
	g, offer := sells(t)
	g.measure("8", func(m *api.Measurement) {
		pool := m.Pools[api.GeneralPool]
		pool.Unverified = transporttest.CPU("5")
		m.Pools[api.GeneralPool] = pool
	})
	g.heard(g.buys("r-1", offer, asItIs), "Accept r-1")
	g.heard(g.buys("r-2", offer, asItIs), "Refuse r-2 "+string(api.ReasonInsufficient))
	d := g.deal("r-3", "6")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-3")
}

// A customer of a hub that is one of its providers gets nothing on its own machines. What others buy
// leaves it what it has.
func TestOwnMachines(t *testing.T) {
	g := newGate(t, "")
	g.measure("8", func(m *api.Measurement) {
		pool := m.Pools[api.GeneralPool]
		pool.Sources = map[string]api.Resources{"rome": transporttest.CPU("5"), "oslo": transporttest.CPU("3")}
		m.Pools[api.GeneralPool] = pool
	})
	g.broker.OnRefuse = func(_ string, why api.Refusal) (transport.Reservation, error) {
		if !strings.Contains(why.Message, "1 cpu short") || strings.Contains(why.Message, "oslo") {
			t.Errorf("it refuses with %q", why.Message)
		}
		return *g.deal("r-1", "4").Over(api.Failed, api.ReasonNotAccepted), nil
	}
	g.heard(g.deal("r-1", "4").Signed(), "Refuse r-1 "+string(api.ReasonInsufficient))
	d := g.deal("r-2", "3")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-2")
}
