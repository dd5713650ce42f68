package exchange

import (
	"context"

	"github.com/bourse-dev/bourse/internal/journal"
)

const snapshotEvery = 20_000

// startFold begins to encode and store a snapshot beside the market, when enough has happened since the last.
func (x *Exchange) startFold(ctx context.Context) {
	if x.folding != nil || !x.foldDue() {
		return
	}
	at, encode := x.head, x.state.Snapshot()
	folding := make(chan error, 1)
	x.folding = folding
	go func() {
		data, err := encode()
		if err == nil {
			err = x.journal.Snapshot(ctx, at, data)
		}
		folding <- err
	}()
}

// foldDue says whether enough has happened since the last snapshot. Each writes the whole market: so in a journal that says its size the
// events must also take a quarter of what the snapshot takes, or less where space is scarce.
func (x *Exchange) foldDue() bool {
	every := x.options.SnapshotEvery
	if every == 0 {
		every = max(snapshotEvery, uint64(x.state.Len()))
	}
	if x.head.Revision-x.foldedAt < every {
		return false
	}
	size, share := x.journal.Size(), int64(4)
	if crowded(size) {
		share = 32
	}
	return size.Space == 0 || size.Tail >= size.Snapshot/share
}

// Crowded is from which use of its space on a journal takes nothing new, so that ends, frees and forgetting have the rest.
const Crowded = 0.6

func crowded(s journal.Size) bool { return s.Use() >= Crowded }

// fold stores a snapshot at once, if there is anything that it makes shorter.
func (x *Exchange) fold(ctx context.Context) {
	if x.foldedAt == x.head.Revision {
		return
	}
	data, err := x.state.Snapshot()()
	if err == nil {
		err = x.journal.Snapshot(ctx, x.head, data)
	}
	x.folded(err)
}

// folded is the end of it. That it failed harms nobody: the journal is only longer.
func (x *Exchange) folded(err error) {
	x.folding = nil
	x.foldedAt = x.head.Revision // try again only after as much has happened once more
	if err != nil {
		x.log.Warn("snapshot of the market not stored", "error", err)
	}
}

// awaitFold waits for a snapshot that is on its way: nobody may write to the journal after Run.
func (x *Exchange) awaitFold() {
	if x.folding != nil {
		<-x.folding
	}
}
