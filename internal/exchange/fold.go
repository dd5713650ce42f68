package exchange

import "context"

const snapshotEvery = 20_000

// startFold begins to encode and store a snapshot beside the market, when enough has happened since the last.
func (x *Exchange) startFold(ctx context.Context) {
	every := x.options.SnapshotEvery
	if every == 0 {
		every = max(snapshotEvery, uint64(x.state.Len()))
	}
	if x.folding != nil || x.head.Revision-x.foldedAt < every {
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
