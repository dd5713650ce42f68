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
	if r.queue.Len() > 0 {
		t.Error("it is looked at before")
	}
	now.Step(time.Hour)
	for end := time.Now().Add(30 * time.Second); r.queue.Len() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not looked at again")
		}
	}
}
