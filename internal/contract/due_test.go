package contract_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What is due is written at most hourly, and at the end exactly.
func TestDueHourly(t *testing.T) {
	r := bought(t, "0.10", 2) // 0.20 EUR an hour, for ten hours
	var s api.ContractStatus
	is := func(h float64, amount string, at float64, again time.Duration) {
		t.Helper()
		got := contract.SetDue(&s, r, hour(h).Go())
		if s.Due == nil || s.Due.Amount != amount || !s.Due.At.Time.Equal(hour(at).Go()) || got != again {
			t.Errorf("after %g h: %+v, again in %s; want %s at %g h, again in %s", h, s.Due, got, amount, at, again)
		}
	}
	is(-1, "0.00 EUR", -1, time.Hour)
	is(0, "0.00 EUR", 0, time.Hour)
	is(0.5, "0.00 EUR", 0, 30*time.Minute)
	is(1, "0.20 EUR", 1, time.Hour)
	is(0.75, "0.15 EUR", 0.75, time.Hour) // the clock was set back
	is(9.5, "1.90 EUR", 9.5, 30*time.Minute)
	is(9.75, "1.90 EUR", 9.5, 15*time.Minute)
	is(10, "2.00 EUR", 10, 0)
	is(99, "2.00 EUR", 10, 0)

	r, s = bought(t, "0.10", 2), api.ContractStatus{}
	is(2, "0.40 EUR", 2, time.Hour)
	r.Ended = hour(2.5)
	is(2.5, "0.50 EUR", 2.5, 0)
	is(8, "0.50 EUR", 2.5, 0)

	s = api.ContractStatus{Due: s.Due}
	if again := contract.SetDue(&s, bought(t, "", 2), hour(1).Go()); again != 0 || s.Due != nil {
		t.Errorf("of a free one %+v is due, again in %s", s.Due, again)
	}
}

// The object of a contract is written again once an hour has passed, and not before.
func TestTheObjectShowsWhatIsDue(t *testing.T) {
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Contract", Resource: "contracts", Namespaced: true, Status: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	clock := transporttest.NewClock()
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "milan", Clock: clock, TickEvery: time.Millisecond})
	now := func() time.Time { return ledger.Now().Go() }
	objects := &contract.Objects{Client: c, Cluster: "milan", Key: transporttest.NewParty(t, "milan").Key, Market: ledger}
	r := bought(t, "0.10", 2)
	r.ID, r.State, r.Consumer, r.Provider, r.Assignment, r.Acceptance = "r-1", api.Reserved, "rome", "milan", "yes", "yes"
	r.From, r.Until = market.At(now()), market.At(now().Add(10*time.Hour))
	var object api.Contract
	show := func(due string) (again time.Duration) {
		t.Helper()
		again, err := objects.Show(t.Context(), "bourse", r)
		if err == nil {
			err = c.Get(t.Context(), client.ObjectKey{Namespace: "bourse", Name: "r-1"}, &object)
		}
		if err != nil || object.Status.Due == nil || object.Status.Due.Amount != due {
			t.Fatalf("it shows %+v, want %s: %v", object.Status.Due, due, err)
		}
		return again
	}
	if again := show("0.00 EUR"); again != time.Hour {
		t.Errorf("again after %s", again)
	}
	first := object.ResourceVersion
	clock.Move(30*time.Minute, now)
	if again := show("0.00 EUR"); object.ResourceVersion != first || again > 31*time.Minute || again < 29*time.Minute {
		t.Errorf("it is written within the hour, and again after %s", again)
	}
	clock.Move(31*time.Minute, now)
	show("0.20 EUR")
	r.State, r.Ended = api.Releasing, market.At(now())
	if again := show("0.20 EUR"); again != 0 || object.Status.Due.Amount != object.Status.Cost {
		t.Errorf("at its end %+v is due of %s, again after %s", object.Status.Due, object.Status.Cost, again)
	}
}

// What is shown as due goes on between two writes, up to the end.
func TestDueGoesOnBetweenWrites(t *testing.T) {
	r := bought(t, "0.50", 2) // 1 EUR an hour, for ten hours
	var s api.ContractStatus
	contract.SetStatus(&s, r, 1)
	contract.SetDue(&s, r, hour(0).Go())
	for at, want := range map[float64]string{0: "0.00 EUR", 0.05: "0.05 EUR", 0.5: "0.50 EUR", 10: "10.00 EUR", 99: "10.00 EUR"} {
		if got := due.At(s, hour(at).Go()); got != want {
			t.Errorf("after %g h %s is due, want %s", at, got, want)
		}
	}
	r.Ended = hour(2.5)
	contract.SetStatus(&s, r, 1)
	if got := due.At(s, hour(9).Go()); got != "2.50 EUR" {
		t.Errorf("of one that ended %s is due", got)
	}
	if got := due.At(api.ContractStatus{}, hour(9).Go()); got != "" {
		t.Errorf("of a free one %s is due", got)
	}
}
