package reservations

import (
	"context"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// hourly is a contract that is to be shown again after an hour.
type hourly struct{}

func (hourly) Show(context.Context, string, *market.Reservation) (time.Duration, error) {
	return time.Hour, nil
}

// A contract is looked at again when more of it is due.
func TestAContractIsShownAgain(t *testing.T) {
	b := newBrokersOf(t, transporttest.NewParty(t, "rome"))
	now := testclock.NewFakeClock(time.Now())
	options := b.options
	options.Contracts, options.Clock = hourly{}, now
	r := New(t.Context(), options)
	if err := r.show(t.Context(), &market.Reservation{ID: "r-1", Consumer: "rome", Provider: "oslo"}); err != nil {
		t.Fatal(err)
	}
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	now.Step(59 * time.Minute)
	time.Sleep(10 * time.Millisecond)
	if r.queue.Len() > 0 {
		t.Error("it is looked at before")
	}
	now.Step(time.Minute)
	if id, _ := r.queue.Get(); id != "r-1" {
		t.Errorf("%s is looked at", id)
	}
}
