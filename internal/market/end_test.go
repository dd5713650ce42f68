package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Capacity is back when the provider says so, not when somebody wants it back.
func TestReleaseAndFree(t *testing.T) {
	for name, c := range map[string]struct {
		by     string
		reason api.Reason
	}{
		"by the consumer": {"paris", api.ReasonReleased},
		"by the provider": {"rome", api.ReasonRevokedByProvider},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestBroker(t)
			d.reserved("r", 5)
			d.must(market.Activate{ID: "r", Consumer: "paris"})
			d.must(market.Release{ID: "r", By: c.by, Generation: 1, Reason: c.reason, Document: "end"})
			d.want("r", api.Releasing, c.reason, "rome", 3000)
			d.must(market.Free{ID: "r", Provider: "rome"})
			d.want("r", api.Released, c.reason, "rome", 8000)
			if r := d.state.Reservation("r"); r.End != "end" {
				t.Errorf("the signed end is lost: %s", dump(r))
			}
		})
	}
}

func TestReleaseBeforeItIsBound(t *testing.T) {
	d := newTestBroker(t)
	d.held("held", 5)
	d.must(market.Release{ID: "held", By: "paris", Generation: 1, Reason: api.ReasonReleased})
	d.want("held", api.Failed, api.ReasonCancelled, "rome", 8000)
	d.signed("signed", 5)
	d.fails(api.CodeConflict, market.Release{ID: "signed", By: "rome", Generation: 1, Document: "end"})
	d.must(market.Release{ID: "signed", By: "paris", Generation: 1, Reason: api.ReasonReleased, Document: "end"})
	d.want("signed", api.Releasing, api.ReasonReleased, "rome", 3000) // rome may have accepted it
}

func TestReleaseErrors(t *testing.T) {
	d := newTestBroker(t)
	d.signed("moved", 1)
	d.must(market.Refuse{ID: "moved", By: "rome", Generation: 1})
	d.reserved("bound", 1)
	for _, c := range []struct {
		command market.Release
		want    api.Code
	}{
		{market.Release{ID: "none", By: "paris", Generation: 1}, api.CodeNotFound},
		{market.Release{ID: "bound", By: "milan", Generation: 1}, api.CodeNotFound},
		{market.Release{ID: "moved", By: "paris", Generation: 1}, api.CodeConflict}, // it is at 2 by now
		{market.Release{ID: "bound", By: "paris", Generation: 0}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
}

// The end that a contract names comes by itself; the word that arrives later is kept, and once.
func TestReleaseAfterTheEnd(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.pass(time.Hour)
	d.want("r", api.Releasing, api.ReasonEnded, "rome", 3000)
	d.must(market.Release{ID: "r", By: "paris", Generation: 1, Reason: api.ReasonEnded, Document: "end"})
	if out := d.must(market.Release{ID: "r", By: "rome", Generation: 1,
		Reason: api.ReasonEnded, Document: "another"}); len(out.Events) > 0 || out.Reservation.End != "end" {
		t.Errorf("ended twice: %s", dump(out))
	}
}

// Both books have the time that the signed end has, unless it would harm who did not sign it.
func TestTheTimeOfASignedEnd(t *testing.T) {
	r := &market.Reservation{Provider: "rome", Consumer: "paris", Created: noon}
	now := noon + int64Time(time.Hour)
	for name, c := range map[string]struct {
		signer       string
		signed, want market.Time
	}{
		"a moment ago":                      {"paris", now - 1500, now - 1500},
		"the provider, long ago":            {"rome", now - int64Time(30*time.Minute), now - int64Time(30*time.Minute)},
		"the consumer, who would pay less":  {"paris", now - int64Time(30*time.Minute), now},
		"to come":                           {"rome", now + 1, now},
		"before it was made":                {"rome", noon - 1, now},
		"no time: an older version":         {"rome", 0, now},
		"the time of a zero metav1.Time":    {"rome", market.At(time.Time{}), now},
		"the consumer, at the latest bound": {"paris", now - int64Time(time.Minute), now - int64Time(time.Minute)},
	} {
		if got := r.EndedAt(c.signer, c.signed, now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	d := newTestBroker(t)
	d.reserved("r", 5)
	d.pass(10 * time.Second)
	at := d.now - 2000
	d.must(market.Release{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonRevokedByProvider, Document: "end", At: at})
	if r := d.state.Reservation("r"); r.Ended != at || r.LastsUntil() != at {
		t.Errorf("it ended at %d, and lasts until %d, want %d", r.Ended, r.LastsUntil(), at)
	}
}

func TestFreeErrors(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("bound", 1)
	d.signed("signed", 1)
	for _, c := range []struct {
		command market.Free
		want    api.Code
	}{
		{market.Free{ID: "none", Provider: "rome"}, api.CodeNotFound},
		{market.Free{ID: "bound", Provider: "milan"}, api.CodeNotFound},
		{market.Free{ID: "bound", Provider: "paris"}, api.CodeForbidden},
		{market.Free{ID: "bound", Provider: "rome"}, api.CodeConflict},
		{market.Free{ID: "signed", Provider: "rome"}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
}

func TestActivateErrors(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("bound", 1)
	d.signed("signed", 1)
	for _, c := range []struct {
		command market.Activate
		want    api.Code
	}{
		{market.Activate{ID: "none", Consumer: "paris"}, api.CodeNotFound},
		{market.Activate{ID: "bound", Consumer: "milan"}, api.CodeNotFound},
		{market.Activate{ID: "bound", Consumer: "rome"}, api.CodeForbidden},
		{market.Activate{ID: "signed", Consumer: "paris"}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
}
