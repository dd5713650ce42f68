package lending

import (
	"fmt"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Accounts are as the Ledger and the SharingPolicy are now. They are summed once for each revision of the Ledger, as
// each of thousands of reservations that end reads its account every second.
func TestAccountsFollowTheLedger(t *testing.T) {
	ledger, first := lends(t)
	var policy *api.Sharing
	u := NewUsage(UsageOptions{Market: ledger, Sharing: func() *api.Sharing { return policy }})
	shows := func(what string, milli int64, bound, ending int) Account {
		t.Helper()
		a, err := u.Account(t.Context(), "rome", first.Slice())
		all, failed := u.Accounts(t.Context(), "")
		if err != nil || failed != nil || len(all) != 1 {
			t.Fatalf("%s: %v, %v, %d accounts", what, err, failed, len(all))
		}
		for _, other := range all {
			if fmt.Sprint(other) != fmt.Sprint(a) {
				t.Errorf("%s: alone it is %v, and among all %v", what, a, other)
			}
		}
		if a.Owed().Of("cpu") != milli || len(a.Bound) != bound || len(a.Ending) != ending {
			t.Errorf("%s: %d milli of CPU by %d reservations, %d end; want %d, %d, %d", what, a.Owed().Of("cpu"),
				len(a.Bound), len(a.Ending), milli, bound, ending)
		}
		return a
	}
	before := shows("one", 1000, 1, 0)
	if again := shows("one still", 1000, 1, 0); &again.Bound[0] != &before.Bound[0] {
		t.Error("an account is summed again, though the Ledger is as it was")
	}
	for i := range 200 {
		if _, err := ledger.Do(t.Context(), market.Admit{
			Adopt: true, Document: "assignment", Acceptance: "acceptance", Size: first.Size, BindsUntil: first.Until,
			Assignment: api.Assignment{Reservation: fmt.Sprint("more-", i), Consumer: "rome", Provider: "milan",
				Pool: api.GeneralPool, Generation: 1, Until: transporttest.Seconds(first.Until.Go())},
		}); err != nil {
			t.Fatal(err)
		}
	}
	shows("many", 201_000, 201, 0)
	if _, err := ledger.Do(t.Context(), market.Release{ID: "r-1", By: "milan",
		Reason: api.ReasonRevokedByProvider}); err != nil {
		t.Fatal(err)
	}
	shows("one ends", 200_000, 200, 1)
	policy = &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, PlainConsumers: []api.PlainConsumer{
		{Cluster: "rome", Slice: first.Slice(), Max: api.Resources(cpu("2"))}}}}}
	shows("a plain consumer", 202_000, 200, 1)
	policy = nil
	shows("no more", 200_000, 200, 1)
	if allocates := testing.AllocsPerRun(20, func() {
		if _, err := u.Account(t.Context(), "rome", first.Slice()); err != nil {
			t.Error(err)
		}
	}); allocates > 100 {
		t.Errorf("one of 200 reservations allocates %g times to read its account", allocates)
	}
}
