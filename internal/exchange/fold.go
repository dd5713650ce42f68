package exchange

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
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
	x.folding, x.foldingAt = folding, at.Revision
	go func() {
		data, err := encode()
		if err == nil {
			err = x.journal.Snapshot(ctx, at, data)
		}
		folding <- err
	}()
}

// foldDue says whether enough has happened since the last snapshot. Each writes the whole market: so in a journal that says its size the
// events must also take a quarter of what the snapshot takes. Where space is scarce a small part of that is enough: when nothing new is
// taken in, few events come.
func (x *Exchange) foldDue() bool {
	every := x.options.SnapshotEvery
	if every == 0 {
		every = max(snapshotEvery, uint64(x.state.Len()))
	}
	enough := x.head.Revision-x.foldedAt >= every
	switch size := x.journal.Size(); {
	case size.Space == 0:
		return enough
	case size.Use() >= Crowded*3/4:
		return x.head.Revision > x.snapshot && size.Tail >= size.Snapshot/32 && !x.clock.now.Before(x.foldNext)
	default:
		return enough && size.Tail >= size.Snapshot/4
	}
}

// foldPause is how long a journal with little space is not folded after that failed.
const foldPause = 5 * time.Second

// Crowded is the share of its space from which on a journal takes nothing new, so that what is known can always end, be free and be
// forgotten.
const Crowded = 0.6

func crowded(s journal.Size) bool { return s.Use() >= Crowded }

// mayAdd says why the journal has no space for what a command adds, or nil. Errors: LedgerFull.
func (x *Exchange) mayAdd(o *order) error {
	size := x.journal.Size()
	if !crowded(size) || !x.state.Adds(o.command, o.outcome.Events) {
		return nil
	}
	return api.Errorf(api.CodeLedgerFull, "%d of %d KiB of its space are taken, and nothing new is taken in from %.0f %% on",
		(size.Snapshot+size.Tail)>>10, size.Space>>10, Crowded*100).Fix("release or evict what is not needed, or wait until some of it has ended and been forgotten")
}

// Size says how much of its space the journal takes.
func (x *Exchange) Size() journal.Size { return x.journal.Size() }

// fold stores a snapshot at once, if there is anything that it makes shorter.
func (x *Exchange) fold(ctx context.Context) {
	if x.snapshot == x.head.Revision {
		return
	}
	x.foldingAt = x.head.Revision
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
	if err == nil {
		x.snapshot = x.foldingAt
	} else {
		x.foldNext = x.clock.now.Add(foldPause)
		x.log.Warn("snapshot of the market not stored", "error", err)
	}
}

// awaitFold waits for a snapshot that is on its way: nobody may write to the journal after Run.
func (x *Exchange) awaitFold() {
	if x.folding != nil {
		<-x.folding
	}
}
