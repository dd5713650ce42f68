package lending

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
)

// A Ledger that does not answer in time leaves no account without its reservations, also where the SharingPolicy
// names plain consumers: their grants would shrink, and their pods would be deleted.
func TestALedgerThatDoesNotAnswerEndsNothing(t *testing.T) {
	policy := &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, PlainConsumers: []api.PlainConsumer{
		{Cluster: "lyon", Slice: "rented", Max: api.Resources(cpu("2"))}}}}}
	u := NewUsage(UsageOptions{Market: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}),
		Sharing: func() *api.Sharing { return policy }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // it may still answer some
		if _, err := u.Accounts(ctx, ""); err != nil {
			return
		}
	}
	t.Error("the error is lost")
}
