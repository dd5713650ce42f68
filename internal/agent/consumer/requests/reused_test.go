package requests_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// released ends a bound reservation.
func (b *borrower) released(d *transporttest.Deal) {
	b.t.Helper()
	b.isGone()
	b.ends(d, api.ReasonReleased)
	b.hears(d.Shown(), "Release r-1")
	b.hears(d.Over(api.Released, api.ReasonReleased))
	b.holds(api.Released, api.ReasonReleased)
}

// This cluster signs nothing more under an ID that is over: old documents could be shown for the
// new reservation.
func TestAnIDThatItHadBefore(t *testing.T) {
	b := newBorrower(t)
	wish := *b.wish
	d := b.bound()
	b.released(d)
	b.wish = &wish
	again := b.deal()
	b.offers(again.Shown)
	b.broker.OnRelease = func(string, string) (transport.Reservation, error) { return *again.Over(api.Failed, ""), nil }
	b.asked("Reserve uid-1", "Release r-1")
	b.hears(again.Again())
	b.holds(api.Released, api.ReasonReleased)
}

// A larger and longer contract that this cluster ended does not bind again because a later one has its ID.
func TestAnOldAssignmentOfAReusedID(t *testing.T) {
	b := newBorrower(t)
	wish := *b.wish
	first := b.deal()
	larger := b.rome.Assignment(*first.Shown())
	larger.Generation, larger.Resources, larger.Until = 5, transporttest.CPU("64"), later(larger.Until, 100*time.Hour)
	old := *first.Shown()
	old.Payload.State, old.Payload.Generation, old.Payload.Resources, old.Payload.Until = api.Reserved, 5, larger.Resources, larger.Until
	old.Payload.Assignment = b.rome.Sign(api.DocumentAssignment, larger)
	old.Payload.Acceptance = b.milan.Agree(old)
	b.released(b.bound())
	b.move(2 * time.Hour)
	b.holds("", "")

	b.wish = &wish
	second := b.bound()
	old.Payload.Fence = second.Shown().Payload.Fence
	b.hears(&old)
	if record := b.ours(); record.Generation != 1 || record.Size.Of("cpu") != 2000 {
		t.Errorf("it believes in generation %d of %d thousandths of a CPU", record.Generation, record.Size.Of("cpu"))
	}
	old.Payload.State, old.Payload.End = api.Releasing, b.milan.End(old, api.ReasonRevokedByProvider)
	b.hears(&old)
	b.holds(api.Reserved, "")
}

// An end from before ends named what they end does not count: it is signed again.
func TestAnEndThatNamesNothing(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.isGone()
	ending := d.Ending(nil, api.ReasonReleased)
	ending.Payload.End = b.rome.Sign(api.DocumentEnd, api.End{Protocol: 1,
		Reservation: "r-1", Generation: 1, By: "rome", Consumer: "rome", Provider: "milan", Reason: api.ReasonReleased})
	b.broker.OnRelease = func(_, document string) (transport.Reservation, error) {
		var e api.End
		if err := clusterkey.Verify(document, api.DocumentEnd, b.rome.Key.Public(), &e); err != nil ||
			e.Assignment != clusterkey.Digest(ending.Payload.Assignment).String() {
			t.Errorf("the end says %+v, %v", e, err)
		}
		return *d.Shown(), nil
	}
	b.hears(ending, "Release r-1")
}
