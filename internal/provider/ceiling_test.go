package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// What a resource plugin allows a consumer bounds what is accepted of it, all together, and cuts nothing that was accepted. Less is taken
// whatever the plugin says, and is not even asked about.
func TestCeiling(t *testing.T) {
	g := newGate(t, "8")
	asked, milli := 0, int64(4000)
	g.Ceiling = func(_ context.Context, consumer string) (*market.Amounts, error) {
		if asked++; consumer != "rome" {
			t.Errorf("it was asked about %q", consumer)
		}
		return &market.Amounts{{Resource: "cpu", Value: milli}}, nil
	}
	first, second := g.deal("r-1", "3"), g.deal("r-2", "2")
	g.takes(first)
	g.heard(first.Signed(), "Accept r-1")
	g.broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) { return *first.Changed(acceptance), nil }
	said := ""
	refused := func(again func() transport.Reservation) {
		g.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
			if said = r.Message; r.Reason != api.ReasonPolicy || r.Advertisement != nil {
				t.Errorf("the refusal is %+v", r)
			}
			return again(), nil
		}
	}
	milli = 1000 // it allows less now
	refused(func() transport.Reservation { return *first.Unchanged(api.ReasonPolicy) })
	g.heard(first.Changing("3", ""), "Refuse r-1 PolicyRefuses") // as much, for longer
	g.has(1, 3000, 5000)
	milli = 4000
	refused(func() transport.Reservation { return *second.Over(api.Failed, api.ReasonNotAccepted) })
	g.heard(second.Signed(), "Refuse r-2 PolicyRefuses")
	if !strings.Contains(said, "allows rome 4 cpu, which has 3 and asks for 2") {
		t.Errorf("it said %q", said)
	}
	g.heard(first.Changing("4", ""), "Accept r-1") // just as much as it allows
	g.has(3, 4000, 4000)
	refused(func() transport.Reservation { return *first.Unchanged(api.ReasonPolicy) })
	g.heard(first.Changing("5", ""), "Refuse r-1 PolicyRefuses")
	g.has(3, 4000, 4000)

	milli = 0
	g.heard(first.Shown())
	g.has(3, 4000, 4000)
	if asked != 5 {
		t.Errorf("the plugin was asked %d times", asked)
	}
}

// While the plugin does not answer nothing new is accepted, and what is bound is not touched; while the agent stops nothing is refused.
func TestCeilingUnknown(t *testing.T) {
	g, bound := lends(t)
	cause := api.Errorf(api.CodeForbidden, "no usable answer")
	g.Ceiling = func(context.Context, string) (*market.Amounts, error) { return nil, cause }
	d := g.deal("r-2", "1")
	g.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		if !strings.Contains(r.Message, "no usable answer") {
			t.Errorf("it said %q", r.Message)
		}
		return *d.Over(api.Failed, api.ReasonNotAccepted), nil
	}
	g.heard(d.Signed(), "Refuse r-2 PolicyRefuses")
	g.heard(bound.Shown())
	g.has(1, 2000, 6000)

	g.Ceiling = func(context.Context, string) (*market.Amounts, error) { return nil, context.Canceled }
	if err := g.hears(g.deal("r-3", "1").Signed()); !errors.Is(err, context.Canceled) {
		t.Errorf("while the agent stops: %v", err)
	}
	if asked := g.broker.Asked(); len(asked) > 0 {
		t.Errorf("the broker was asked %q", asked)
	}
}

// What this cluster accepted, and its Ledger lost, is taken back whatever a plugin says of it now.
func TestCeilingOfWhatWasAccepted(t *testing.T) {
	g := newGate(t, "8")
	d := g.deal("r-1", "2")
	d.Signed()
	reserved := d.Reserved(g.milan.Agree(*d.Shown()))
	g.Ceiling = func(context.Context, string) (*market.Amounts, error) { return &market.Amounts{}, nil }
	g.heard(reserved)
	g.holds("r-1", api.Reserved, "")
}
