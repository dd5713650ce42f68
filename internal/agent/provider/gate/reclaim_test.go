package gate_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// sellsSpot makes a bound reservation of a plan with a notice, nil for none, and returns what the broker shows.
func (g *testGate) sellsSpot(id string, notice *metav1.Duration) *transport.Reservation {
	g.t.Helper()
	offer, err := trust.Offer(g.milan.Sign(api.DocumentOffer,
		api.SignedOffer{Protocol: api.Protocol, Seller: "milan", Name: "of-" + id, Version: 1, Offer: api.OfferSpec{
			Plans: []api.Plan{{Name: "spot", Resources: transporttest.CPU("2"), Notice: notice}},
		}}), g.milan.Key.Public())
	if err == nil {
		_, err = g.Market.Do(g.t.Context(), market.Publish{Offer: offer})
	}
	if err != nil {
		g.t.Fatal(err)
	}
	shown := g.deal(id, "2").Shown()
	a := g.rome.Assignment(*shown)
	a.Sale, a.Begins = &api.Sale{Offer: offer.Digest, Plan: "spot", Units: 1}, transporttest.Seconds(g.now())
	shown.Payload.Assignment = g.rome.Sign(api.DocumentAssignment, a)
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		shown.Payload.State, shown.Payload.Acceptance = api.Reserved, acceptance
		return *shown, nil
	}
	g.heard(shown, "Accept "+id)
	return shown
}

// A sale with a notice is taken back with that notice, and the broker receives that until it has
// it. The broker's own word takes nothing back.
func TestReclaims(t *testing.T) {
	g := newGate(t, "8")
	shown := g.sellsSpot("r-1", &metav1.Duration{Duration: 10 * time.Minute})
	lie := *shown
	lie.Payload.Reclaim = g.rome.Sign(api.DocumentReclaim,
		api.Reclaim{Protocol: api.Protocol, Reservation: "r-1", Consumer: "rome", Provider: "milan",
			Issued: transporttest.Seconds(g.now()), Effective: transporttest.Seconds(g.now().Add(10 * time.Minute))})
	g.heard(&lie)
	if r := g.ours("r-1"); r.Reclaim != "" {
		t.Errorf("the broker takes it back: %+v", r)
	}
	at, err := g.Reclaim(t.Context(), "r-1")
	if left := at.Sub(g.now()); err != nil || left < 10*time.Minute || left > 10*time.Minute+3*time.Second {
		t.Errorf("it ends in %s, %v", left, err)
	}
	if again, err := g.Reclaim(t.Context(), "r-1"); err != nil || !again.Equal(at) {
		t.Errorf("said again, it ends at %s, not %s: %v", again, at, err)
	}
	if err := g.hears(shown); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("the broker is away: %v", err)
	}
	g.broker.Asked()
	g.broker.OnRelease = func(_, document string) (transport.Reservation, error) {
		var word api.Reclaim
		if err := clusterkey.Verify(document, api.DocumentReclaim, g.milan.Key.Public(), &word); err != nil ||
			!word.Effective.Time.Equal(at) {
			t.Errorf("it is told %+v, %v", word, err)
		}
		return *shown, nil
	}
	g.heard(shown, "Release r-1")
	shown.Payload.Reclaim = g.ours("r-1").Reclaim
	g.heard(shown)
	g.move(10*time.Minute + market.SkewGrace - time.Second)
	g.holds("r-1", api.Reserved, "")
	g.move(5 * time.Second)
	g.holds("r-1", api.Releasing, api.ReasonReclaimed)

	d := g.deal("firm", "1")
	g.takes(d)
	g.heard(d.Signed(), "Accept firm")
	if _, err := g.Reclaim(t.Context(), "firm"); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("what is firm is taken back: %v", err)
	}
	if _, err := g.Reclaim(t.Context(), "none"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("nothing is taken back: %v", err)
	}
}
