package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// takes makes the broker record the acceptance of a deal.
func (g *testGate) takes(d *transporttest.Deal) {
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *d.Reserved(acceptance), nil }
}

func TestAccepts(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	shown := d.Signed()
	g.broker.OnAccept = func(id, document string) (transport.Reservation, error) {
		g.holds(id, api.Held, "") // it is in our books before anybody hears of it
		var a api.Acceptance
		err := clusterkey.Verify(document, api.DocumentAcceptance, g.milan.Key.Public(), &a)
		if err != nil || a.Reservation != id || a.Assignment != clusterkey.Digest(shown.Payload.Assignment).String() ||
			!a.Expires.After(g.now()) {
			t.Errorf("the acceptance says %+v, %v", a, err)
		}
		return *d.Reserved(document), nil
	}
	g.heard(shown, "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
	g.heard(d.Shown()) // the broker's own news of it
	g.heard(shown)     // and what it said before that
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(d.Ending(g.rome, api.ReasonReleased), "Progress r-1 Released")
	g.holds("r-1", api.Released, api.ReasonReleased)
	g.left(8000)
}

// What its consumer uses is Active here as everywhere, also after a change.
func TestActive(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.broker.OnAccept = func(_, document string) (transport.Reservation, error) { return *d.Reserved(document), nil }
	g.heard(d.Signed(), "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.heard(d.Over(api.Active, ""))
	g.holds("r-1", api.Active, "")
	g.broker.OnAccept = func(_, document string) (transport.Reservation, error) { return *d.Changed(document), nil }
	g.heard(d.Changing("4", ""), "Accept r-1")
	g.holds("r-1", api.Active, "")
	g.left(4000)
}

// The gate refuses with a reason on which the consumer can act.
func TestRefuses(t *testing.T) {
	terms := func(change func(*api.Terms)) func(*api.Measurement) {
		return func(m *api.Measurement) { change(m.Terms) }
	}
	for name, c := range map[string]struct {
		terms func(*api.Measurement)
		cpu   string
		want  api.Reason
	}{
		"more than there is": {nil, "9", api.ReasonInsufficient},
		"more than one may have": {terms(func(t *api.Terms) { t.MaxPerReservation = transporttest.CPU("1") }),
			"2", api.ReasonPolicy},
		"more than one consumer may": {terms(func(t *api.Terms) { t.MaxPerConsumer = transporttest.CPU("1") }),
			"2", api.ReasonPolicy},
		"for longer than it lends": {terms(func(t *api.Terms) { t.MaxDuration = &metav1.Duration{Duration: time.Minute} }), "2", api.ReasonPolicy},
		"not for this consumer": {terms(func(t *api.Terms) { t.VisibleTo.Clusters = []string{"oslo"} }),
			"2", api.ReasonPolicy},
		"its own expression": {terms(func(t *api.Terms) { t.Allow = `consumer.region == "us"` }),
			"2", api.ReasonPolicy},
		"an expression without answer": {terms(func(t *api.Terms) { t.Allow = `consumer.gpus.exists(g, g == "x")` }),
			"2", api.ReasonPolicy},
		"nothing is shared at its broker": {func(m *api.Measurement) { m.Brokers = []string{"north"} },
			"2", api.ReasonNothingShared},
		"nothing is shared": {func(m *api.Measurement) { m.Terms = nil }, "2", api.ReasonNothingShared},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, "")
			g.measure("8", c.terms)
			d := g.deal("r-1", c.cpu)
			g.broker.OnRefuse = func(id string, r api.Refusal) (transport.Reservation, error) {
				if r.Generation != 1 || r.Message == "" || (r.Advertisement != nil) != (c.want == api.ReasonInsufficient) {
					t.Errorf("the refusal is %+v", r)
				}
				return *d.Over(api.Failed, api.ReasonNotAccepted), nil
			}
			g.restart(func(o *gate.Options) { o.Fresh = freshly })
			g.heard(d.Signed(), "Refuse r-1 "+string(c.want))
			g.holds("r-1", "", "")
			g.heard(d.Shown())
		})
	}
}

// A refusal that did not reach the broker is decided again. One that came too late ends it.
func TestRefusesUntilItIsHeard(t *testing.T) {
	g := newGate(t, "1")
	d := g.deal("r-1", "2")
	signed := d.Signed()
	if err := g.hears(signed); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatalf("the broker is away: %v", err)
	}
	g.broker.Asked()
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeConflict, "it has moved on")
	}
	g.heard(signed, "Refuse r-1 Insufficient")
	g.measure("8", nil) // now it would fit
	g.takes(d)
	g.heard(signed, "Accept r-1")
}

// Before it has measured its cluster, the gate can neither accept nor refuse.
func TestDoesNotAnswerBeforeItHasMeasured(t *testing.T) {
	g := newGate(t, "")
	if err := g.hears(g.deal("r-1", "2").Signed()); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if asked := g.broker.Asked(); len(asked) > 0 {
		t.Errorf("it said %q", asked)
	}
}

// An acceptance whose answer was lost is sent again unchanged.
func TestAcceptanceLost(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	signed, sent := d.Signed(), map[string]bool{}
	g.broker.OnAccept = func(_, document string) (transport.Reservation, error) {
		sent[document] = true
		return transport.Reservation{}, transporttest.Away
	}
	for range 3 {
		if err := g.hears(signed); !errors.Is(err, transporttest.Away) {
			t.Fatalf("the broker is away: %v", err)
		}
		g.holds("r-1", api.Held, "")
	}
	if len(sent) != 1 {
		t.Errorf("%d different acceptances of one assignment", len(sent))
	}
	g.broker.Asked()
	g.takes(d)
	g.heard(signed, "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
}

// The broker recorded the acceptance, and its answer was lost: the next event commits it.
func TestTheBrokersNewsCommits(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		d.Reserved(acceptance)
		return transport.Reservation{}, transporttest.Away
	}
	if err := g.hears(d.Signed()); !errors.Is(err, transporttest.Away) {
		t.Fatal(err)
	}
	g.broker.Asked()
	g.heard(d.Shown())
	g.holds("r-1", api.Reserved, "")
}

// A consumer releases while the provider accepts: the capacity is back at once.
func TestReleasedWhileItIsAccepted(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	signed := d.Signed()
	tooLate := func() (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeConflict, "it is Releasing")
	}
	g.broker.OnAccept = func(string, string) (transport.Reservation, error) {
		d.Ending(g.rome, api.ReasonReleased)
		return tooLate()
	}
	// what the broker said before is still in its ear
	g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) { return tooLate() }
	if err := g.hears(signed); err != nil {
		t.Fatal(err)
	}
	g.holds("r-1", api.Released, api.ReasonNotAccepted)
	g.left(8000)
	g.broker.Asked()
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(d.Shown(), "Progress r-1 Released")
	g.heard(d.Shown())
}

// The same, where the broker recorded the acceptance and answers with the end that followed.
func TestReleasedBeforeTheAnswerCame(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		d.Reserved(acceptance)
		return *d.Ending(g.rome, api.ReasonReleased), nil
	}
	g.heard(d.Signed(), "Accept r-1", "Accept r-1") // again, because the Ledger changed
	g.holds("r-1", api.Held, "")
	g.broker.OnProgress = func(string, api.State) (transport.Reservation, error) {
		return *d.Over(api.Released, api.ReasonReleased), nil
	}
	g.heard(d.Shown(), "Progress r-1 Released")
	g.holds("r-1", api.Released, api.ReasonReleased)
}

// A provider takes back what it lends. The consumer receives the signed end, and the capacity is
// free once nothing is left, even if the broker is away.
func TestRevokes(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	if ended, err := g.Revoke(t.Context(), "oslo"); err != nil || len(ended) > 0 {
		t.Errorf("of oslo: %v, %v", ended, err)
	}
	left := false
	g.restart(func(o *gate.Options) {
		o.Freed = func(context.Context, *market.Reservation) (bool, error) { return left, nil }
	})
	if ended, err := g.Revoke(t.Context(), "rome"); err != nil || len(ended) != 1 || ended[0] != "r-1" {
		t.Errorf("%v, %v", ended, err)
	}
	g.broker.OnRelease = func(_, document string) (transport.Reservation, error) {
		var e api.End
		if err := clusterkey.Verify(document, api.DocumentEnd, g.milan.Key.Public(), &e); err != nil ||
			e.By != "milan" || e.Reason != api.ReasonRevokedByProvider {
			t.Errorf("%+v, %v", e, err)
		}
		return *d.Ending(g.milan, api.ReasonRevokedByProvider), nil
	}
	if err := g.hears(d.Shown()); !errors.Is(err, gate.ErrNotYet) {
		t.Errorf("%v", err)
	}
	if asked := g.broker.Asked(); len(asked) != 1 || asked[0] != "Release r-1" {
		t.Errorf("the broker was asked %q", asked)
	}
	g.left(6000)
	left, g.broker.OnRelease = true, nil
	if err := g.hears(d.Reserved("")); api.CodeOf(err) != api.CodeUnavailable { // it will be told when it is back
		t.Error(err)
	}
	g.holds("r-1", api.Released, api.ReasonRevokedByProvider)
	g.left(8000)
	if ended, err := g.Revoke(t.Context(), "rome"); err != nil || len(ended) > 0 {
		t.Errorf("again: %v, %v", ended, err)
	}
}

// An assignment that writes a small amount in many digits is refused: it would take space in the Ledger.
func TestRefusesLongAssignments(t *testing.T) {
	for _, amount := range []string{"0.002" + strings.Repeat("0", 45_000),
		strings.Repeat("0", 45_000) + "2", "0.00" + strings.Repeat("9", 45_000), "2e-999999999"} {
		g := newGate(t, "8")
		d := g.deal("r-1", "2")
		encoded, err := json.Marshal(g.rome.Assignment(*d.Shown()))
		var fields map[string]any
		if err == nil {
			err = json.Unmarshal(encoded, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		fields["resources"] = map[string]any{"cpu": amount}
		g.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
			return *d.Over(api.Failed, api.ReasonNotAccepted), nil
		}
		g.heard(d.SignedAs(g.rome.Sign(api.DocumentAssignment, fields)), "Refuse r-1 BadAssignment")
		g.holds("r-1", "", "")
	}
}
