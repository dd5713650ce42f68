package requests_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// ends makes the broker accept an end of rome's, once it has verified it.
func (b *borrower) ends(d *transporttest.Deal, want api.Reason) {
	b.broker.OnRelease = func(id, document string) (transport.Reservation, error) {
		var e api.End
		err := clusterkey.Verify(document, api.DocumentEnd, b.rome.Key.Public(), &e)
		t := d.Shown().Payload
		if err != nil || e.Reservation != id || e.By != "rome" || e.Provider != t.Provider ||
			e.Generation != t.Generation || e.Reason != want {
			b.t.Errorf("the end says %+v, %v", e, err)
		}
		return *d.Ending(b.rome, e.Reason), nil
	}
}

func TestBorrows(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.broker.OnConfirm = func(_, assignment string) (transport.Reservation, error) {
		if record := b.ours(); record == nil || record.Assignment != assignment || record.State != api.Held {
			t.Errorf("it is sent before it is remembered: %+v", record)
		}
		return *d.Signed(), nil
	}
	b.asked("Reserve uid-1", "Confirm r-1")
	b.hears(d.Shown())
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	b.hears(d.Shown())

	b.isGone()
	b.holds(api.Releasing, api.ReasonReleased)
	b.ends(d, api.ReasonReleased)
	b.hears(d.Shown(), "Release r-1")
	b.hears(d.Shown())
	b.holds(api.Releasing, api.ReasonReleased)
	b.hears(d.Over(api.Released, api.ReasonReleased))
	b.holds(api.Released, api.ReasonReleased)
	b.hears(d.Shown())
}

// The answer to an assignment was lost, or the agent died before it sent one: it sends the same
// assignment again.
func TestConfirmationLost(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatal(err)
	}
	signed := b.ours().Assignment
	b.broker.Asked()
	b.takes(d)
	b.hears(d.Shown(), "Confirm r-1")
	if b.ours().Assignment != signed || d.Shown().Payload.Assignment != signed {
		t.Error("it signed a second assignment")
	}
}

// Two calls sign a hold at the same time, and the broker got the assignment of the other one first: that holds.
func TestTwoCallsSignAtOnce(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	if err := b.Ask(t.Context(), *b.wish); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatal(err)
	}
	other := d.Consumer.Assignment(*d.Shown())
	other.Issued = metav1.NewTime(other.Issued.Add(time.Second))
	first := d.Consumer.Sign(api.DocumentAssignment, other)
	if b.ours().Assignment == first {
		t.Fatal("both calls signed the same")
	}
	d.SignedAs(first)
	b.broker.Asked()
	b.hears(d.Shown())
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	if b.ours().Assignment != first {
		t.Error("it insists on its second assignment")
	}
}

// A request that needs confirmation is not signed before its user confirms it.
func TestConfirmTrueWaitsForItsUser(t *testing.T) {
	b := newBorrower(t)
	b.wish.Request.Confirm = true
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1")
	b.holds(api.Held, "")
	b.hears(d.Shown())
	b.wish.Confirmed = true
	b.asked("Reserve uid-1", "Confirm r-1")
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
}

// The user did not confirm: the hold ends at the broker, and here too without an event.
func TestNobodyConfirms(t *testing.T) {
	b := newBorrower(t)
	b.wish.Request.Confirm = true
	b.offers(b.deal().Shown)
	b.asked("Reserve uid-1")
	b.move(7 * time.Minute)
	b.holds(api.Expired, api.ReasonNotAccepted)
}

// A refusal moves the hold to the next best provider, for which the consumer signs again. A stale
// state of the first changes nothing.
func TestRefusedMovesToTheNextBest(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	first := d.Shown()
	// once, though its own note brings it to the same news again
	b.hears(d.Moved(transporttest.NewParty(t, "oslo")), "Confirm r-1")
	if record := b.ours(); record.Provider != "oslo" || record.Generation != 2 ||
		record.Assignment != d.Shown().Payload.Assignment {
		t.Errorf("it holds %+v", record)
	}
	b.hears(first)
	b.hears(d.Reserved(""))
	b.holds(api.Reserved, "")
	if record := b.ours(); record.Provider != "oslo" {
		t.Errorf("bound to %s", record.Provider)
	}
}

// A provider that this cluster cannot use is passed over before anything is signed.
func TestPassesOverWhatItCannotReach(t *testing.T) {
	b := newBorrower(t)
	b.restart(func(o *requests.BorrowerOptions) {
		o.Reach = func(_ context.Context, provider *api.Card, _ api.Request) error {
			if provider.Cluster == "milan" {
				return api.Errorf(api.CodeUnreachable, "no route")
			}
			return nil
		}
	})
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.broker.OnRefuse = func(_ string, r api.Refusal) (transport.Reservation, error) {
		if r.Generation != 1 || r.Message == "" {
			t.Errorf("%+v", r)
		}
		return *d.Moved(transporttest.NewParty(t, "oslo")), nil
	}
	b.asked("Reserve uid-1", "Refuse r-1 ApiServerUnreachable", "Reserve uid-1", "Confirm r-1")
	if record := b.ours(); record.Provider != "oslo" || record.Generation != 2 {
		t.Errorf("it holds %+v", record)
	}
}

// A cluster asks for a network only if it takes part in one.
func TestAsksForNoNetworkThatItHasNot(t *testing.T) {
	b := newBorrower(t)
	w := *b.wish
	w.Request.Network = api.NetworkWireGuard
	if err := b.Ask(t.Context(), w); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// No cluster can serve the request: that is the answer, with the reason.
func TestRejected(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	d.Over(api.Rejected, api.ReasonNoCandidate)
	b.offers(func() *transport.Reservation {
		r := d.Shown()
		r.Payload.Provider, r.Payload.ProviderCard, r.Payload.Slice, r.Payload.Generation = "", "", "", 0
		r.Payload.Decision = &api.Decision{Considered: 3, Hidden: 3}
		return r
	})
	b.asked("Reserve uid-1")
	b.holds(api.Rejected, api.ReasonNoCandidate)
	if message := b.ours().Message; message != "3 considered, 3 hidden" {
		t.Errorf("it says %q", message)
	}
}

// The user deleted the request while the hold moved on: the present hold is ended, not the earlier one.
func TestGoneWhileItMovesOn(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	b.offers(d.Shown)
	b.takes(d)
	b.asked("Reserve uid-1", "Confirm r-1")
	b.isGone()
	d.Moved(transporttest.NewParty(t, "oslo"))
	b.ends(d, api.ReasonReleased)
	b.hears(d.Shown(), "Release r-1")
	b.hears(d.Over(api.Failed, api.ReasonCancelled))
	b.holds(api.Failed, api.ReasonCancelled)
}

// The request was deleted before the answer to it arrived: the answer is signed, recorded, and then ended.
func TestGoneBeforeTheAnswerArrived(t *testing.T) {
	b := newBorrower(t)
	d := b.deal()
	wish := *b.wish
	b.broker.OnReserve = func(string, api.Request) (transport.Reservation, error) {
		b.wish = nil // deleted while the call was on its way
		return *d.Shown(), nil
	}
	b.takes(d)
	if err := b.Ask(t.Context(), wish); err != nil {
		t.Fatal(err)
	}
	b.wasAsked("Reserve uid-1", "Confirm r-1")
	b.isGone()
	b.ends(d, api.ReasonReleased)
	b.hears(d.Shown(), "Release r-1")
}

// The provider ends the reservation, with its own signature.
func TestTheProviderEndsIt(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	b.hears(d.Ending(b.milan, api.ReasonRevokedByProvider))
	b.holds(api.Releasing, api.ReasonRevokedByProvider)
	b.hears(d.Over(api.Released, api.ReasonRevokedByProvider))
	b.holds(api.Released, api.ReasonRevokedByProvider)
}
