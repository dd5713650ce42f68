package requests_test

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// rotated gives rome a new key, as its agent has it after its next start.
func (b *borrower) rotated() {
	b.t.Helper()
	b.rome.Rotate()
	b.restart(func(o *requests.BorrowerOptions) { o.Key = b.rome.Key })
	b.pinsItself()
}

func (b *borrower) pinsItself() {
	b.t.Helper()
	key := b.rome.Key.Public()
	if _, err := b.Market.Do(context.Background(),
		market.Pin{Cluster: "rome", Key: key.String(), Former: trust.Former("rome", key, b.rome.Rotations)}); err != nil {
		b.t.Fatal(err)
	}
}

// is checks which key of milan's is pinned.
func (b *borrower) pinned(milan *transporttest.Party) {
	b.t.Helper()
	if key, err := trust.Key(context.Background(), b.Market, "milan"); err != nil || key != milan.Key.Public() {
		b.t.Errorf("pinned is %s, %v", key, err)
	}
}

// A reservation goes on when its provider gets a new key, and either key can end it.
func TestTheProviderOfWhatIsBoundGetsANewKey(t *testing.T) {
	for name, c := range map[string]struct {
		by   func(old, now *transporttest.Party) *transporttest.Party
		want api.State
	}{
		"it ends by the new one": {func(_, now *transporttest.Party) *transporttest.Party { return now },
			api.Releasing},
		"it was ended by the old one": {func(old, _ *transporttest.Party) *transporttest.Party { return old },
			api.Releasing},
		"somebody else says that it ended": {func(_,
			now *transporttest.Party) *transporttest.Party {
			return transporttest.NewParty(t, "milan")
		}, api.Reserved},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBorrower(t)
			d := b.bound()
			old := b.milan.Rotate()
			b.pinned(old)
			b.hears(d.Greeted())
			b.pinned(b.milan)
			b.holds(api.Reserved, "")
			d.Ending(nil, api.ReasonRevokedByProvider)
			shown := d.Shown()
			shown.Payload.End = c.by(old, b.milan).End(*shown, api.ReasonRevokedByProvider)
			b.hears(shown)
			if record := b.ours(); record.State != c.want {
				t.Errorf("it is %s", record.State)
			}
		})
	}
}

// The provider gets a new key between the assignment and its acceptance. Either key may accept, but
// the old one only if the assignment names it.
func TestTheProviderAnswersByANewKey(t *testing.T) {
	for name, c := range map[string]struct {
		asked, answers func(old, now *transporttest.Party) *transporttest.Party
		want           api.State
	}{
		"the old one was asked, the new one answers": {first, second, api.Reserved},
		"the old one was asked, and has answered":    {first, first, api.Reserved},
		"the new one was asked, the old one answers": {second, first, api.Held},
		"the new one was asked, and answers":         {second, second, api.Reserved},
		"the old one was asked, somebody else answers": {first,
			func(_, _ *transporttest.Party) *transporttest.Party { return transporttest.NewParty(t, "milan") }, api.Held},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBorrower(t)
			old, now := b.milan, *b.milan
			now.Rotate()
			d := transporttest.NewDeal(b.rome, c.asked(old, &now), "r-1", "2", b.now())
			b.offers(d.Shown)
			b.takes(d)
			b.asked("Reserve uid-1", "Confirm r-1")
			d.Provider = &now
			d.Greeted()
			d.Provider = c.answers(old, &now)
			b.hears(d.Reserved(""))
			b.holds(c.want, "")
			b.pinned(&now)
		})
	}
}

func first(old, _ *transporttest.Party) *transporttest.Party  { return old }
func second(_, now *transporttest.Party) *transporttest.Party { return now }

// A reservation goes on when this cluster gets a new key: the broker is asked nothing, and the new
// key can end it.
func TestTheConsumerOfWhatIsBoundGetsANewKey(t *testing.T) {
	b := newBorrower(t)
	b.pinsItself()
	d := b.bound()
	old := b.rome.Key.Public()
	b.rotated()
	b.hears(d.Greeted())
	b.hears(d.Reserved(d.Shown().Payload.Acceptance))
	b.holds(api.Reserved, "")
	b.broker.OnRelease = func(_, document string) (transport.Reservation, error) {
		var e api.End
		if err := clusterkey.Verify(document, api.DocumentEnd, b.rome.Key.Public(), &e); err != nil {
			t.Errorf("the end: %v", err)
		}
		if err := clusterkey.Verify(document, api.DocumentEnd, old, &e); err == nil {
			t.Error("the end is by the old key")
		}
		return *d.Ending(b.rome, api.ReasonReleased), nil
	}
	b.isGone()
	b.hears(d.Shown(), "Release r-1")
	b.hears(d.Over(api.Released, api.ReasonReleased))
	b.holds(api.Released, api.ReasonReleased)
}

// An assignment that was not sent before this cluster got its new key is signed again, and so is
// what the broker holds again because of that.
func TestAHoldIsSignedAnew(t *testing.T) {
	for name, seen := range map[string]bool{"the broker had it": true, "the broker never saw it": false} {
		t.Run(name, func(t *testing.T) {
			b := newBorrower(t)
			b.pinsItself()
			d := b.deal()
			b.offers(d.Shown)
			if b.takes(d); !seen {
				b.broker.OnConfirm = func(string, string) (transport.Reservation, error) {
					return transport.Reservation{}, api.Errorf(api.CodeConflict, "it did not come through")
				}
			}
			b.asked("Reserve uid-1", "Confirm r-1")
			before := b.ours().Assignment
			b.rotated()
			b.milan.Rotate()
			b.takes(d)
			shown := d.Greeted()
			if seen {
				shown = d.Again()
			}
			b.hears(shown, "Confirm r-1")
			if b.ours().Assignment == before {
				t.Error("it was not signed again")
			}
			b.hears(d.Reserved(""))
			b.holds(api.Reserved, "")
		})
	}
}

// A change that this cluster signed with its former key, and that the provider accepted, binds.
func TestAChangeThatWasSignedBefore(t *testing.T) {
	b := newBorrower(t)
	b.pinsItself()
	d := b.bound()
	b.wish.Request.Resources = transporttest.CPU("6")
	b.broker.OnConfirm = func(_, assignment string) (transport.Reservation,
		error) {
		return *d.Changing("6", assignment), nil
	}
	for range 2 { // what is signed is remembered first
		if _, err := b.Change(t.Context(), b.ours(), *b.wish); err != nil {
			t.Fatal(err)
		}
	}
	b.wasAsked("Confirm r-1")
	b.rotated()
	b.hears(d.Changed(""))
	if record := b.ours(); record.Generation != 2 || record.Size.Of("cpu") != 6000 || record.Change != nil {
		t.Errorf("bound is %+v", record)
	}
}

// A change names the provider's new key, once the broker has refused the old one.
func TestAChangeAfterTheProviderGotANewKey(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.milan.Rotate()
	d.Greeted()
	b.broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) {
		var a api.Assignment
		if err := clusterkey.Verify(assignment, api.DocumentAssignment, b.rome.Key.Public(), &a); err != nil {
			t.Fatal(err)
		}
		if a.ProviderKey != b.milan.Key.Public().Fingerprint().String() {
			return transport.Reservation{}, api.Invalid("document.providerKey", "another")
		}
		return *d.Changing("6", assignment), nil
	}
	b.broker.OnReservation = func() (transport.Reservation, error) { return *d.Shown(), nil }
	b.wish.Request.Resources = transporttest.CPU("6")
	changes := func() {
		t.Helper()
		for range 2 {
			if _, err := b.Change(t.Context(), b.ours(), *b.wish); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes()
	if c := b.ours().Change; c == nil || c.Reason != api.ReasonBadAssignment {
		t.Fatalf("it has become %+v", c)
	}
	b.move(2 * market.RetryTime)
	d.Changing("6", "") // generation 2 is used
	d.Unchanged(api.ReasonBadAssignment)
	changes()
	b.hears(d.Changed(""), "Confirm r-1", "Confirm r-1")
	if record := b.ours(); record.Size.Of("cpu") != 6000 {
		t.Errorf("bound is %+v", record)
	}
}

// A Ledger that lost everything after the provider got a new key restores what the old key
// accepted. It does not restore what this cluster signed with a former key of its own: a thief of
// that key could have signed it.
func TestALedgerThatLostEverythingAfterARotation(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.milan.Rotate()
	d.Greeted()
	lost := again(t, b.rome, b.milan, b.clock)
	lost.offers(d.Shown)
	lost.asked("Reserve uid-1")
	lost.holds(api.Reserved, "")

	b.rome.Rotate()
	d.Greeted()
	lost = again(t, b.rome, b.milan, b.clock)
	lost.pinsItself()
	lost.offers(d.Shown)
	lost.refusesToAsk(api.CodeBadSignature)
	lost.holds("", "")
	lost.broker.OnReservation = func() (transport.Reservation, error) { return *d.Shown(), nil }
	lost.broker.OnRelease = func(string, string) (transport.Reservation,
		error) {
		return *d.Ending(b.rome, api.ReasonReleased), nil
	}
	if err := lost.EndSigned(t.Context(), "r-1"); err != nil {
		t.Errorf("it cannot even be ended: %v", err)
	}
}
