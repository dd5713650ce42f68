package requests_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A lying broker never makes the borrower sign, believe or end what it should not. Each test is one lie.

// An answer that says that both sides are bound: without both signatures they are not.
func TestALyingBrokerInstructsWithoutRequest(t *testing.T) {
	for _, state := range []api.State{api.Reserved, api.Active, api.Releasing} {
		b := newBorrower(t)
		d := b.deal()
		r := d.Over(state, "")
		b.offers(func() *transport.Reservation { return r })
		b.refusesToAsk(api.CodeBadSignature)
		r.Payload.Assignment = b.milan.Assign(*d.Shown()) // signed, but not by rome
		r.Payload.Acceptance = b.milan.Agree(*r)
		b.refusesToAsk(api.CodeBadSignature)
		b.holds("", "")
		b.hears(r) // and of what no request of its own made it does nothing
		b.holds("", "")
	}
}

// A hold that is not what was asked for is not signed.
func TestALyingBrokerAnswersSomethingElse(t *testing.T) {
	for name, lie := range map[string]func(b *borrower, r *transport.Reservation){
		"another size": func(_ *borrower,
			r *transport.Reservation) {
			r.Payload.Resources = transporttest.CPU("6")
		},
		"a smaller size": func(_ *borrower,
			r *transport.Reservation) {
			r.Payload.Resources = transporttest.CPU("1")
		},
		"for another consumer": func(_ *borrower, r *transport.Reservation) { r.Payload.Consumer = "oslo" },
		"in another pool":      func(_ *borrower, r *transport.Reservation) { r.Payload.Pool = "gpu" },
		"in another slice":     func(_ *borrower, r *transport.Reservation) { r.Payload.Slice = "b-general-other" },
		"for longer": func(_ *borrower,
			r *transport.Reservation) {
			r.Payload.Until = later(r.Payload.Until, 100*time.Hour)
		},
		"for a time that is over": func(_ *borrower,
			r *transport.Reservation) {
			r.Payload.Until = later(r.Payload.Until, -100*time.Hour)
		},
		"held for ever": func(_ *borrower, r *transport.Reservation) {
			r.Payload.HeldUntil = later(r.Payload.HeldUntil, time.Hour)
		},
		"begun in a time to come": func(_ *borrower, r *transport.Reservation) {
			r.Payload.Created = later(r.Payload.Created, 2000*time.Hour)
		},
		"begun long ago": func(_ *borrower, r *transport.Reservation) {
			r.Payload.Created = later(r.Payload.Created, -2000*time.Hour)
		},
		"on itself": func(_ *borrower, r *transport.Reservation) { r.Payload.Provider = "rome" },
		"with a card of another": func(b *borrower, r *transport.Reservation) {
			r.Payload.ProviderCard = transporttest.NewParty(b.t, "oslo").Card(api.Properties{})
		},
		"with a card that is none":  func(_ *borrower, r *transport.Reservation) { r.Payload.ProviderCard = "x" },
		"under a name that is none": func(_ *borrower, r *transport.Reservation) { r.ID = "../r" },
		"in a state that is none":   func(_ *borrower, r *transport.Reservation) { r.Payload.State = "Lost" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBorrower(t)
			r := b.deal().Shown()
			lie(b, r)
			b.offers(func() *transport.Reservation { return r })
			b.refusesToAsk(api.CodeBadSignature)
			b.holds("", "")
		})
	}
}

// An answer with more parts than the request may have, each of which it would read.
func TestALyingBrokerNamesManyParts(t *testing.T) {
	for name, split := range map[string]int32{"not split": 0, "in two": 2} {
		b, shown := parts(t)
		b.wish.Request.Split = split
		for range 1000 {
			shown["r-1"].Payload.Group = append(shown["r-1"].Payload.Group, "r-3")
		}
		b.broker.OnReservation = func() (transport.Reservation, error) {
			t.Errorf("%s: a part is read", name)
			return transport.Reservation{}, api.Errorf(api.CodeNotFound, "no such part")
		}
		b.refusesToAsk(api.CodeBadSignature)
		b.holds("", "")
	}
}

// A provider that was passed over is named again, each time.
func TestALyingBrokerNamesAProviderAgain(t *testing.T) {
	b := newBorrower(t)
	b.restart(func(o *requests.BorrowerOptions) {
		o.Reach = func(context.Context, *api.Card, api.Request) error {
			return api.Errorf(api.CodeUnreachable, "not from here")
		}
	})
	refused := 0
	b.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		if refused++; refused > 1 {
			t.Fatal("it is passed over again")
		}
		return *b.deal().Shown(), nil
	}
	b.offers(b.deal().Shown)
	if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("%v", err)
	}
	b.holds("", "")
}

// A new provider is named each time, none of which this cluster can use. One ask ends, and the next continues.
func TestALyingBrokerNamesProvidersWithoutEnd(t *testing.T) {
	b := newBorrower(t)
	b.restart(func(o *requests.BorrowerOptions) {
		o.Reach = func(context.Context, *api.Card, api.Request) error {
			return api.Errorf(api.CodeUnreachable, "not from here")
		}
	})
	refused := 0
	b.broker.OnRefuse = func(string, api.Refusal) (transport.Reservation, error) {
		if refused++; refused > 1000 {
			t.Fatal("one ask does not end")
		}
		return transport.Reservation{}, nil
	}
	b.offers(func() *transport.Reservation {
		provider := transporttest.NewParty(t, fmt.Sprint("milan-", refused))
		return transporttest.NewDeal(b.rome, provider, "r-1", "2", b.now()).Shown()
	})
	for range 2 {
		before := refused
		if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeUnreachable || refused-before != 64 {
			t.Errorf("%v, after %d providers", err, refused-before)
		}
	}
	b.holds("", "")
}

func later(t metav1.Time, by time.Duration) metav1.Time { return transporttest.Seconds(t.Add(by)) }

// A provider other than the one that was named, or one that was excluded.
func TestALyingBrokerInstructsOtherProvider(t *testing.T) {
	for name, request := range map[string]func(*api.Request){
		"not the target": func(r *api.Request) { r.Target = "oslo" },
		"excluded":       func(r *api.Request) { r.Exclude = []string{"milan"} },
	} {
		b := newBorrower(t)
		request(&b.wish.Request)
		b.offers(b.deal().Shown)
		b.refusesToAsk(api.CodeBadSignature)
		t.Log(name)
	}
	b := newBorrower(t)
	d := b.bound()
	shown := d.Restored()
	shown.Payload.Provider = "oslo" // after both are bound
	b.hears(shown)
	if provider := b.ours().Provider; provider != "milan" {
		t.Errorf("bound to %s", provider)
	}
}

// A larger size, or a later end, than the signed one: what was signed counts.
func TestALyingBrokerInflatesTheSize(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	shown := d.Reserved("")
	shown.Payload.Resources, shown.Payload.Pool = transporttest.CPU("64"), "gpu"
	shown.Payload.Until = later(shown.Payload.Until, 1000*time.Hour)
	b.hears(shown)
	b.holds(api.Reserved, "")
	if record := b.ours(); record.Size.Of("cpu") != 2000 || record.Pool != api.GeneralPool ||
		record.Until.Go().After(b.now().Add(2*time.Hour)) {
		t.Errorf("it holds %+v", record)
	}
}

// An acceptance that the provider did not sign, or that is of another assignment.
func TestALyingBrokerForgesTheAcceptance(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	other := *d.Shown()
	other.Payload.Assignment = b.rome.Sign(api.DocumentAssignment, b.milan.Assignment(other))
	next := *d.Shown()
	next.Payload.Generation = 2
	for name, acceptance := range map[string]string{
		"none":                  "",
		"not a document":        "x",
		"by another":            transporttest.NewParty(t, "milan").Agree(*d.Shown()),
		"by itself":             b.rome.Agree(*d.Shown()),
		"of another assignment": b.milan.Agree(other),
		"of another generation": b.milan.Agree(next),
		"of another kind":       b.milan.Sign(api.DocumentEnd, b.milan.Acceptance(*d.Shown())),
	} {
		for _, state := range []api.State{api.Reserved, api.Active} {
			shown := d.Over(state, "")
			shown.Payload.Acceptance = acceptance
			b.hears(shown)
			if b.ours().State != api.Held {
				t.Fatalf("an acceptance that is %s was believed", name)
			}
		}
	}
}

// An end that neither party signed.
func TestALyingBrokerRelaysAnEndNobodySigned(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	for name, end := range map[string]string{
		"nobody's":                 "",
		"a third's":                transporttest.NewParty(t, "oslo").End(*d.Shown(), api.ReasonReleased),
		"of an earlier generation": b.milan.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: "r-1", By: "milan"}),
		"of another reservation": b.milan.Sign(api.DocumentEnd,
			api.End{Protocol: 1, Reservation: "r-2", Generation: 1, By: "milan"}),
	} {
		for _, state := range []api.State{api.Releasing, api.Released, api.Failed, api.Expired, api.Rejected} {
			shown := d.Over(state, api.ReasonReleased)
			shown.Payload.End = end
			b.hears(shown)
			if b.ours().State != api.Reserved {
				t.Fatalf("an end that is %s, with %s, was obeyed", name, state)
			}
		}
	}
}

// A key of the provider other than the pinned one: this cluster agrees nothing with it.
func TestALyingBrokerSwapsTheKey(t *testing.T) {
	b := newBorrower(t)
	b.bound()
	other := *b.wish
	other.Object.UID = "uid-2"
	impostor := transporttest.NewDeal(b.rome, transporttest.NewParty(t, "milan"), "r-2", "2", b.now())
	b.offers(impostor.Shown)
	if err := b.Ask(t.Context(), other); api.CodeOf(err) != api.CodeUnavailable { // and it cannot even be told so
		t.Errorf("%v", err)
	}
	b.wasAsked("Reserve uid-2", "Refuse r-2 KeyChanged")
}

// The answer to one request is the reservation of another, which is not replaced.
func TestALyingBrokerAnswersWithAnothersReservation(t *testing.T) {
	b := newBorrower(t)
	b.bound()
	other := *b.wish
	other.Object.UID = "uid-2"
	b.offers(b.deal().Shown) // r-1, again
	if err := b.Ask(t.Context(), other); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("%v", err)
	}
	b.holds(api.Reserved, "")
}

// Texts that would fill the Ledger, or a terminal.
func TestALyingBrokersWords(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	shown := d.Over(api.Failed, "\x1b[2J")
	shown.Payload.Message = "sorry\x1b[2J" + strings.Repeat("x", 1<<20)
	b.hears(shown)
	b.holds(api.Failed, "")
	if message := b.ours().Message; len(message) > 1100 || strings.ContainsRune(message, '\x1b') {
		t.Errorf("it keeps %d bytes: %.40q", len(message), message)
	}
}
