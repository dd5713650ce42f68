package exchange_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

// Many large orders at once become several appends: one that is too large for the journal would end
// the exchange.
func TestLargeOrdersAreAppendedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faulty{Journal: newMemory()}
		x := founded(t, j, exchange.Options{})
		x.advertise("rome", 2, "1000")
		wait := make(chan struct{})
		j.appends = []fault{{wait: wait}}
		var all sync.WaitGroup
		document := strings.Repeat("x", 300_000)
		for i := range 100 {
			id := fmt.Sprint("r", i)
			all.Go(func() {
				x.must(hold(id, 1))
				x.must(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: document})
			})
		}
		synctest.Wait()
		batches := x.Stats().Batches
		close(wait)
		all.Wait()
		if got := x.Stats().Batches - batches; got < 5 || got > 99 {
			t.Errorf("30 MB in %d appends", got)
		}
		if got := x.available("rome"); got != 900_000 {
			t.Errorf("%d left", got)
		}
	})
}
