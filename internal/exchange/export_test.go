package exchange

import (
	"context"

	"github.com/bourse-dev/bourse/internal/market"
)

const MaxBehind = maxBehind

// Behind is how many changes wait for the reader of a watch.
func (x *Exchange) Behind(w *Watch) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Watches is how many there are.
func (x *Exchange) Watches() int {
	n := 0
	_ = x.Read(context.Background(), func(*market.State) {
		for _, watches := range x.subscribers {
			n += len(watches)
		}
	})
	return n
}

const MaxRemembered = maxRemembered

// ForgetChange notes one more change of the catalog, so that older ones are forgotten.
func (x *Exchange) ForgetChange(seller string) {
	x.catalog.add([]CatalogChange{{Seller: seller, revision: x.View().Revision}})
}

// Compacted is the revision of the last snapshot that was stored, and whether another one is on its way.
func (x *Exchange) Compacted() (at uint64, running bool) {
	_ = x.Read(context.Background(), func(*market.State) {
		at, running = x.compaction.revision,
			x.compaction.running != nil
	})
	return at, running
}
