package gate_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A lying broker never makes the gate do what its admin did not allow. Each test is one lie.

// lies makes the broker accept every refusal.
func (g *testGate) lies() {
	g.broker.OnRefuse = func(id string, _ api.Refusal) (transport.Reservation, error) {
		return transport.Reservation{ID: id}, nil
	}
}

// A reservation that no consumer asked for: without the consumer's signature there is nothing to accept.
func TestALyingBrokerInstructsWithoutRequest(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	g.heard(g.deal("r-held", "2").Shown())
	g.holds("r-held", "", "")

	invented := g.deal("r-invented", "2")
	invented.Signed()
	g.waits(invented.Reserved(g.rome.Agree(*invented.Shown())), api.CodeConflict) // an acceptance, but not milan's
	g.holds("r-invented", "", "")

	unsigned := g.deal("r-unsigned", "2")
	g.heard(unsigned.Reserved(g.milan.Agree(*unsigned.Shown()))) // milan's, but of nothing that rome signed
	g.holds("r-unsigned", "", "")
	g.left(8000)
}

// An assignment that is for another provider.
func TestALyingBrokerInstructsOtherProvider(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	oslo := transporttest.NewParty(t, "oslo")
	shown := transporttest.NewDeal(g.rome, oslo, "r-1", "2", g.now()).Signed()
	shown.Payload.Provider = "milan"
	g.heard(shown, "Refuse r-1 BadAssignment")
	impostor := transporttest.NewParty(t, "milan") // of the same name, with another key
	shown = transporttest.NewDeal(g.rome, impostor, "r-2", "2", g.now()).Signed()
	g.heard(shown, "Refuse r-2 BadAssignment")
	g.holds("r-1", "", "")
	g.holds("r-2", "", "")
}

// A size that the consumer did not sign: the signed size counts.
func TestALyingBrokerInflatesTheSize(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	shown := d.Signed()
	shown.Payload.Resources = transporttest.CPU("6")
	shown.Payload.Until = metav1.NewTime(shown.Payload.Until.Add(1000 * time.Hour))
	g.takes(d)
	g.heard(shown, "Accept r-1")
	g.left(6000)
	if until := g.ours("r-1").Until.Go(); until.After(g.now().Add(2 * time.Hour)) {
		t.Errorf("it ends only at %s", until)
	}
}

// One assignment shown to two gates: only the one that it names accepts.
func TestALyingBrokerShowsOneAssignmentToTwoGates(t *testing.T) {
	milan := newGate(t, "8")
	oslo := open(t, memorytest.New(), milan.rome, transporttest.NewParty(t, "oslo"), transporttest.NewClock(), "8")
	oslo.lies()
	d := milan.deal("r-1", "2")
	theirs := d.Signed()
	shown := *theirs
	milan.takes(d)
	milan.heard(theirs, "Accept r-1")
	oslo.heard(&shown, "Refuse r-1 BadAssignment")
	oslo.holds("r-1", "", "")
}

// An end that neither party signed, or that is of another reservation.
func TestALyingBrokerRelaysAnEndNobodySigned(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	other := g.deal("r-other", "1").Signed()
	for name, end := range map[string]string{
		"nobody's":                 "",
		"a third's":                transporttest.NewParty(t, "oslo").End(*d.Shown(), api.ReasonReleased),
		"of another reservation":   g.rome.End(*other, api.ReasonReleased),
		"of an earlier generation": g.rome.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: "r-1", By: "rome"}),
		"of another kind": g.rome.Sign(api.DocumentAcceptance,
			api.End{Protocol: 1, Reservation: "r-1", Generation: 9, By: "rome"}),
	} {
		for _, state := range []api.State{api.Releasing, api.Released, api.Failed, api.Expired} {
			shown := d.Over(state, api.ReasonReleased)
			shown.Payload.End = end
			g.heard(shown)
			if g.ours("r-1").State != api.Reserved {
				t.Fatalf("an end that is %s, with %s, was obeyed", name, state)
			}
		}
	}
	g.left(6000)
}

// The broker says that it never recorded an acceptance that it committed.
func TestALyingBrokerForgetsWhatItCommitted(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	signed := d.Signed()
	g.takes(d)
	g.heard(signed, "Accept r-1")
	g.broker.OnAccept = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeNotFound, "what reservation?")
	}
	signed.Payload.Fence = api.Fence{Lineage: "second", Revision: 1}
	g.heard(signed, "Accept r-1")
	g.holds("r-1", api.Reserved, "")
	g.left(6000)
}

// A key of the consumer other than the pinned one.
func TestALyingBrokerSwapsTheKey(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	d := g.deal("r-1", "2")
	g.takes(d)
	g.heard(d.Signed(), "Accept r-1")
	impostor := transporttest.NewParty(t, "rome")
	g.heard(transporttest.NewDeal(impostor, g.milan, "r-2", "2", g.now()).Signed(), "Refuse r-2 KeyChanged")
	g.holds("r-2", "", "")

	mixed := transporttest.NewDeal(impostor, g.milan, "r-3", "2", g.now()).Signed()
	mixed.Payload.ConsumerCard = d.Shown().Payload.ConsumerCard // rome's card, but its signature
	g.heard(mixed, "Refuse r-3 BadAssignment")
	end := d.Over(api.Releasing, api.ReasonReleased)
	end.Payload.End = impostor.End(*d.Shown(), api.ReasonReleased)
	g.heard(end)
	g.holds("r-1", api.Reserved, "")
}

// Invalid names and times, which would stop the agent from advertising, or never end.
func TestALyingBrokerAndItsAccomplice(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	sign := func(id string, change func(*api.Assignment)) *transport.Reservation {
		shown := g.deal(id, "2").Signed()
		a := g.rome.Assignment(*shown)
		change(&a)
		shown.Payload.Assignment = g.rome.Sign(api.DocumentAssignment, a)
		return shown
	}
	nothing := func(*api.Assignment) {}
	g.heard(sign("../r", nothing), "Refuse ../r BadAssignment")
	g.heard(sign("r-1", func(a *api.Assignment) { a.Until = transporttest.Seconds(g.now().Add(20_000 * time.Hour)) }),
		"Refuse r-1 BadAssignment")
	g.heard(sign("r-2", func(a *api.Assignment) { a.Expires = transporttest.Seconds(g.now().Add(time.Hour)) }),
		"Refuse r-2 BadAssignment")
	g.heard(sign("r-3", func(a *api.Assignment) { a.Expires = transporttest.Seconds(g.now().Add(-time.Hour)) }),
		"Refuse r-3 BadAssignment")
	g.heard(sign("r-4", func(a *api.Assignment) { a.Until = transporttest.Seconds(g.now().Add(-time.Second)) }),
		"Refuse r-4 BadAssignment")
	g.heard(sign("r-5", func(a *api.Assignment) { a.Resources = transporttest.CPU("-1") }), "Refuse r-5 BadAssignment")
	g.heard(sign("r-6", func(a *api.Assignment) { a.Slice = "b-general-of-another" }), "Refuse r-6 BadAssignment")
	g.heard(sign("r-7", func(a *api.Assignment) { a.Protocol = api.Protocol + 1 }), "Refuse r-7 BadAssignment")
	g.heard(sign("r-8", func(a *api.Assignment) { a.Pool = "gpu"; a.Slice = "x" }), "Refuse r-8 BadAssignment")

	self := transporttest.NewDeal(transporttest.NewParty(t, "milan"), g.milan, "r-9", "2", g.now()).Signed()
	g.heard(self, "Refuse r-9 BadAssignment") // and another key is not pinned as our own
	odd := transporttest.NewDeal(transporttest.NewParty(t, "no/name"), g.milan, "r-10", "2", g.now()).Signed()
	g.heard(odd, "Refuse r-10 BadAssignment")
	g.left(8000)
	g.measure("8", nil) // it can still say what it has
}

// A bound reservation grows only within its plan.
func TestHostileChangeOfAContract(t *testing.T) {
	g, offer := sells(t)
	theirs := g.buys("r-1", offer, asItIs)
	g.heard(theirs, "Accept r-1")
	var no api.Reason
	g.broker.OnRefuse = func(id string, r api.Refusal) (transport.Reservation, error) {
		no = r.Reason
		return *theirs, nil
	}
	change := func(change func(*api.Assignment)) *transport.Reservation {
		next := *theirs
		next.Payload.Generation = g.ours("r-1").Latest() + 1
		next.Payload.HeldUntil = transporttest.Seconds(g.now().Add(market.HoldTime))
		a := g.rome.Assignment(next)
		s := *a.Sale
		a.Sale, a.Begins = &s, transporttest.Seconds(g.now())
		change(&a)
		shown := *theirs
		shown.Payload.Fence.Revision += 100
		shown.Payload.Change = &api.Change{Generation: a.Generation,
			Resources: a.Resources, Until: a.Until, HeldUntil: next.Payload.HeldUntil,
			Assignment: g.rome.Sign(api.DocumentAssignment, a)}
		return &shown
	}
	units := func(a *api.Assignment, n int64, cpu string) { a.Sale.Units, a.Resources = n, transporttest.CPU(cpu) }
	for name, lie := range map[string]func(*api.Assignment){
		"of more than it pays for": func(a *api.Assignment) { units(a, 2, "4") },
		"of a plan that is none":   func(a *api.Assignment) { units(a, 4, "4"); a.Sale.Plan = "huge" },
		"of another plan":          func(a *api.Assignment) { units(a, 1, "2"); a.Sale.Plan = "large" },
		"of no plan":               func(a *api.Assignment) { a.Sale = nil; a.Resources = transporttest.CPU("4") },
		"paid for much later": func(a *api.Assignment) {
			units(a, 4, "4")
			a.Begins = transporttest.Seconds(g.now().Add(30 * time.Minute))
		},
		"not paid for any more": func(a *api.Assignment) {
			units(a, 4, "4")
			a.Begins = transporttest.Seconds(g.now().Add(-30 * time.Minute))
		},
		"for longer than its plan": func(a *api.Assignment) {
			units(a, 4, "4")
			a.Until = transporttest.Seconds(g.now().Add(48 * time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			no = ""
			if err := g.hears(change(lie)); err != nil {
				t.Fatal(err)
			}
			g.broker.Asked()
			if r := g.ours("r-1"); no != api.ReasonBadAssignment || r.Generation != 1 ||
				r.Sale.Units != 2 || r.Size.Of("cpu") != 2000 || r.Changing() != nil {
				t.Errorf("refused for %q, and it is %+v", no, r)
			}
			g.sold(2)
		})
	}
	more := change(func(a *api.Assignment) { units(a, 4, "4") })
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
		c := more.Payload.Change
		more.Payload.Generation, more.Payload.Assignment, more.Payload.Acceptance, more.Payload.Change = c.Generation, c.Assignment, acceptance, nil
		more.Payload.Sale = &api.Sale{Offer: more.Payload.Sale.Offer, Plan: "small", Units: 4}
		return *more, nil
	}
	g.heard(more, "Accept r-1")
	g.sold(4)
	if r := g.ours("r-1"); len(r.Past) != 1 || r.Past[0].Units != 2 || r.Sale.Units != 4 {
		t.Errorf("it was %+v and is %+v", r.Past, r.Sale)
	}
}

// Words of 1 MiB, which the Ledger would keep with what the gate accepts.
func TestALyingBrokerNamesTooMuch(t *testing.T) {
	g := newGate(t, "8")
	g.lies()
	shown := g.deal("r-1", "2").Signed()
	shown.Payload.Fence.Lineage = strings.Repeat("x", 1<<20)
	g.waits(shown, api.CodeBadSignature)
	g.holds("r-1", "", "")
	g.left(8000)
}
