package requests_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The consumer's own clock ends a reservation while the broker is away. When the broker is back, the provider
// receives
// the signed end.
func TestEndsWithItsTimeWithoutTheBroker(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.move(59 * time.Minute)
	b.holds(api.Reserved, "")
	b.move(2 * time.Minute)
	b.holds(api.Releasing, api.ReasonEnded)
	b.ends(d, api.ReasonEnded)
	b.hears(d.Shown(), "Release r-1")
	b.hears(d.Over(api.Released, api.ReasonEnded))
	b.holds(api.Released, api.ReasonEnded)
}

// Both were away, and the broker ended the reservation alone: its word is enough for what ended here.
func TestBothWereAway(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.move(2 * time.Hour)
	b.hears(d.Over(api.Released, api.ReasonEnded))
	b.holds(api.Released, api.ReasonEnded)
}

// The consumer was away for so long that the broker forgot the reservation: it is over.
func TestTheBrokerHasForgottenIt(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.isGone()
	b.broker.OnRelease = func(string, string) (transport.Reservation, error) {
		return transport.Reservation{}, api.Errorf(api.CodeNotFound, "no such reservation")
	}
	b.hears(d.Shown(), "Release r-1", "Release r-1") // once more, because the Ledger changed
	b.holds(api.Released, api.ReasonReleased)
}

// A broker restored from a backup holds a reservation that is bound. It receives the same
// assignment again, and nothing changes here, even if the broker rejects it.
func TestABrokerThatWasRestored(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	held := d.Shown()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	signed := b.ours().Assignment
	b.hears(d.Reserved(""))
	held.Payload.Fence = api.Fence{Lineage: "second", Revision: 1}
	b.broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) {
		if assignment != signed {
			t.Error("it signed another assignment")
		}
		return *d.Shown(), nil
	}
	b.hears(held, "Confirm r-1")
	b.holds(api.Reserved, "")

	d.Restored()
	b.hears(d.Moved(transporttest.NewParty(t, "oslo"))) // what is bound does not move
	b.holds(api.Reserved, "")
	b.hears(d.Over(api.Expired, api.ReasonNotConfirmed)) // nor does it end so
	b.holds(api.Reserved, "")
	if provider := b.ours().Provider; provider != "milan" {
		t.Errorf("bound to %s", provider)
	}
}

// The consumer itself says that its virtual node is Ready. A broker that shows an older state
// receives that again, and changes nothing here. Otherwise a broker and a connector that differ
// would undo each other's word for ever.
func TestOneSaysLessThanTheOther(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	less := d.Shown()
	less.Payload.Fence = api.Fence{Lineage: "connector", Revision: 1}
	more := d.Over(api.Active, "")
	b.hears(more)
	active := b.ours()
	b.broker.OnProgress = func(string, api.State) (transport.Reservation, error) { return *more, nil }
	b.hears(less, "Progress r-1 Active")
	b.hears(more)
	if b.ours() != active {
		t.Errorf("the Ledger was written: %+v", b.ours())
	}
	b.hears(d.Changing("3", ""))
	b.holds(api.Active, "")
}

// A Ledger that lost everything restores from this cluster's own signatures what it had.
func TestALedgerThatLostEverything(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(*transporttest.Deal)
		state  api.State
		reason api.Reason
	}{
		"it is held, signed": {func(*transporttest.Deal) {}, api.Held, ""},
		"it is bound":        {func(d *transporttest.Deal) { d.Reserved("") }, api.Reserved, ""},
		"it was refused by everyone": {func(d *transporttest.Deal) { d.Over(api.Failed, api.ReasonNotAccepted) },
			api.Failed, api.ReasonNotAccepted},
		"it was ended before its bound": {func(d *transporttest.Deal) { d.Ending(d.Consumer, api.ReasonReleased) },
			api.Releasing, api.ReasonReleased},
		"the provider ended it": {func(d *transporttest.Deal) {
			d.Reserved("")
			d.Ending(d.Provider, api.ReasonRevokedByProvider)
		}, api.Releasing, api.ReasonRevokedByProvider},
		"the broker alone says that it is over": {func(d *transporttest.Deal) {
			d.Reserved("")
			d.Over(api.Released, api.ReasonEnded)
		}, api.Reserved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := newBorrower(t)
			d := before.deal()
			before.offers(d.Shown)
			before.takes(d)
			before.asked("Reserve uid-1", "Confirm r-1")
			c.then(d)
			b := again(t, before.rome, before.milan, before.clock)
			b.offers(d.Shown)
			b.asked("Reserve uid-1")
			b.holds(c.state, c.reason)
			if record := b.ours(); record.Object == nil || *record.Object != before.wish.Object ||
				record.Size.Of("cpu") != 2000 {
				t.Errorf("it remembers %+v", record)
			}
			b.hears(d.Shown())
			b.holds(c.state, c.reason)
		})
	}
}

// The Ledger was restored to before it signed, and its agent did not notice.
func TestALedgerThatLostItsSignature(t *testing.T) {
	b := newBorrower(t)
	b.wish.Request.Confirm = true
	d := b.deal()
	b.offers(d.Shown)
	b.asked("Reserve uid-1")
	b.hears(d.Signed()) // by the agent, in a life that was lost
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	if record := b.ours(); record.Assignment == "" || record.Object == nil {
		t.Errorf("it holds %+v", record)
	}
}

// The broker ends before it takes the assignment, and does not show the hold again: the same assignment
// is sent once more, and no more after the broker took it.
func TestAnAssignmentIsSentAgain(t *testing.T) {
	d := newDesk(t)
	o := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.reconcile()
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1")
	signed := d.ours().Assignment
	d.takes(deal)
	d.reconcile()
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1")
	if got := d.ours().Assignment; signed == "" || got != signed {
		t.Errorf("it signed %q, then %q", signed, got)
	}
	d.reconcile()
	d.wasAsked()
}
