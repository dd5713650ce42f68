package gate_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A consumer that ends a contract speaks for itself. It cannot sign in its seller's name, date the end back, nor say
// that its seller broke the contract.
func TestAConsumerSpeaksForItself(t *testing.T) {
	for by, ends := range map[string]bool{"rome": true, "milan": false, "": false} {
		g, offer := sells(t)
		shown := g.buys("r-1", offer, asItIs)
		g.heard(shown, "Accept r-1")
		began := g.ours("r-1").Created
		g.move(50 * time.Minute)
		cost := contract.CostText(g.ours("r-1"), g.Market.Now().Go())
		shown.Payload.State, shown.Payload.Reason = api.Releasing, api.ReasonRevokedByProvider
		shown.Payload.End = g.rome.Sign(api.DocumentEnd, api.End{Protocol: api.Protocol, Reservation: "r-1",
			Assignment: clusterkey.Digest(shown.Payload.Assignment).String(), Generation: 1, By: by,
			Consumer: "rome", Provider: "milan", Reason: api.ReasonRevokedByProvider,
			At: transporttest.Seconds(began.Go().Add(time.Second))})
		_ = g.hears(shown) // the broker is away afterwards
		r := g.ours("r-1")
		if is := r.Ended != 0; is != ends {
			t.Errorf("by %q: it is %s", by, r.State)
		}
		if r.Breached() {
			t.Errorf("by %q: the seller broke it, says its buyer", by)
		}
		if now := contract.CostText(r, g.Market.Now().Go()); now != cost {
			t.Errorf("by %q: it costs %s, want %s", by, now, cost)
		}
	}
}
