package exchange

import (
	"context"

	"github.com/bourse-dev/bourse/internal/journal"
)

// fold is an encoded snapshot on its way into the journal.
type fold struct {
	at   journal.Head
	data []byte
	err  error
}

// startFold begins to encode a snapshot beside the market, when enough has happened since the last.
func (x *Exchange) startFold() {
	if x.folding != nil || x.head.Revision-x.folded < x.options.SnapshotEvery {
		return
	}
	at, encode := x.head, x.state.Snapshot()
	folding := make(chan fold, 1)
	x.folding = folding
	go func() {
		data, err := encode()
		folding <- fold{at, data, err}
	}()
}

// fold stores the snapshot. That it fails harms nobody: the journal is only longer.
func (x *Exchange) fold(ctx context.Context, f fold) {
	x.folding = nil
	x.folded = x.head.Revision // try again only after as much has happened once more
	if f.err == nil {
		f.err = x.journal.Snapshot(ctx, f.at, f.data)
	}
	if f.err != nil {
		x.log.Warn("snapshot of the market not stored", "error", f.err)
	}
}
