package exchange

import (
	"context"
	"io"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	snapshotEvery = 20_000
	// A journal without a bound of its own is folded by the bytes of its events since the last snapshot: when they take four times what the
	// snapshot takes, at least foldBytes and at most maxFoldBytes, or a quarter of the snapshot if that is more. Events can be large, and
	// each fold writes the whole market: the larger the market, the rarer the folds.
	foldBytes, maxFoldBytes = 64 << 20, 512 << 20
	// mostTail is how many bytes of events the journal takes besides a snapshot that is on its way: then they wait for it.
	mostTail = 768 << 20
)

// tail is what the events take that are not in a snapshot.
type tail struct {
	bytes    int64
	folding  int64 // of them, those that are in the snapshot on its way
	snapshot int64 // the size of the last snapshot
	retry    int64 // after a snapshot failed: from how many bytes on the next is tried
}

// due says whether they take so much that the journal is to be folded.
func (t tail) due() bool {
	return t.bytes >= max(foldBytes, min(4*t.snapshot, maxFoldBytes), t.snapshot/4, t.retry)
}

// startFold begins to encode and store a snapshot beside the market, when enough has happened since the last.
func (x *Exchange) startFold(ctx context.Context) {
	if x.tail.bytes >= mostTail {
		x.awaitFold()
	}
	if x.folding != nil || !x.foldDue() {
		return
	}
	store := x.store(ctx)
	folding := make(chan error, 1)
	x.folding, x.foldingAt, x.tail.folding = folding, x.head.Revision, x.tail.bytes
	go func() { folding <- store() }()
}

// store collects a snapshot. What it returns may be called on any goroutine, later, to encode and store it.
func (x *Exchange) store(ctx context.Context) func() error {
	at := x.head
	if piecewise, ok := x.journal.(journal.Streamer); ok {
		encode := x.state.SnapshotTo()
		return func() error {
			size := new(counting)
			err := piecewise.SnapshotFrom(ctx, at, func(w io.Writer) error { return encode(io.MultiWriter(w, size)) })
			x.foldedSize.Store(int64(*size))
			return err
		}
	}
	encode := x.state.Snapshot()
	return func() error {
		data, err := encode()
		if err == nil {
			err = x.journal.Snapshot(ctx, at, data)
		}
		x.foldedSize.Store(int64(len(data)))
		return err
	}
}

// counting counts what is written to it.
type counting int64

// Write implements io.Writer.
func (c *counting) Write(data []byte) (int, error) {
	*c += counting(len(data))
	return len(data), nil
}

// foldDue says whether enough has happened since the last snapshot. Each writes the whole market: so in a journal that says its size the
// events must also take a quarter of what the snapshot takes. Where space is scarce a small part of that is enough, and any event after
// foldRest: when nothing new is taken in, few events come, and a short one may say that much is forgotten.
func (x *Exchange) foldDue() bool {
	every := x.options.SnapshotEvery
	if every == 0 {
		every = max(snapshotEvery, uint64(x.state.Len()))
	}
	enough := x.head.Revision-x.foldedAt >= every
	switch size := x.journal.Size(); {
	case size.Space == 0:
		return enough || x.tail.due()
	case size.Use() >= Crowded*3/4:
		next := x.foldNext
		if size.Tail < size.Snapshot/32 {
			next = next.Add(foldRest)
		}
		return x.head.Revision > x.snapshot && !x.clock.now.Before(next)
	default:
		return enough && size.Tail >= size.Snapshot/4
	}
}

// A journal with little space is not folded again for foldPause after that failed, and for foldRest if little was written since.
const foldPause, foldRest = 5 * time.Second, time.Minute

// Crowded is the share of its space from which on a journal takes nothing new, so that what is known can always end, be free and be
// forgotten.
const Crowded = 0.6

func crowded(s journal.Size) bool { return s.Use() >= Crowded }

// mayAdd says why the journal has no space for what a command adds, or nil. Errors: LedgerFull.
func (x *Exchange) mayAdd(o *order) error {
	size := x.journal.Size()
	if size.Use() < maxShare || !x.state.Adds(o.command, o.outcome.Events) {
		return nil
	}
	if !crowded(size) {
		return x.checkShare(size, o.outcome.Events)
	}
	return api.Errorf(api.CodeLedgerFull, "it takes %s, and nothing new is taken in from %.0f %% on", size, Crowded*100).Fix("release or evict what is not needed, or wait until some of it has ended and been forgotten")
}

// maxShare is the share of its space that a journal keeps of one consumer at most, with what ended within the last hour: half of what it
// takes in at all. Where others have some of that, a consumer takes at most half of what they leave.
const maxShare = Crowded / 2

// checkShare says why the journal keeps nothing more of the consumer of new reservations, or nil: its share is not less than what is left
// for all, so that no consumer keeps out the others. It reckons what a consumer takes by the bytes of its reservations. Errors: LedgerFull.
func (x *Exchange) checkShare(size journal.Size, events []market.Event) error {
	for _, e := range events {
		if e.Reservation == nil || e.Reservation.Consumer == x.options.Self {
			continue
		}
		has, all := x.state.BytesOf(e.Reservation.Consumer)
		left := Crowded - size.Use()
		if share := size.Use() * float64(has) / float64(max(all, 1)); share >= left {
			return api.Errorf(api.CodeLedgerFull, "what is kept of %s takes %.1f %% of its space, and %.1f %% are left for all: no consumer takes more than is left",
				e.Reservation.Consumer, share*100, left*100).Fix("release or evict some of it, or wait until it has ended and been forgotten")
		}
	}
	return nil
}

// Size says how much of its space the journal takes.
func (x *Exchange) Size() journal.Size { return x.journal.Size() }

// fold stores a snapshot at once, if there is anything that it makes shorter.
func (x *Exchange) fold(ctx context.Context) {
	if x.snapshot == x.head.Revision {
		return
	}
	x.foldingAt, x.tail.folding = x.head.Revision, x.tail.bytes
	x.folded(x.store(ctx)())
}

// folded is the end of it. That it failed harms nobody: the journal is only longer.
func (x *Exchange) folded(err error) {
	x.folding = nil
	x.foldedAt = x.head.Revision // try again only after as much has happened once more
	x.foldNext = x.clock.now
	if err != nil {
		x.foldNext = x.foldNext.Add(foldPause)
		x.tail.retry = x.tail.bytes + foldBytes
		x.log.Warn("snapshot of the market not stored", "error", err)
		return
	}
	x.snapshot = x.foldingAt
	x.tail = tail{bytes: x.tail.bytes - x.tail.folding, snapshot: x.foldedSize.Load()}
}

// awaitFold waits for a snapshot that is on its way, before the journal is loaded again and after Run. It takes as long as the disk takes:
// meanwhile the owner says that it is there.
func (x *Exchange) awaitFold() {
	for x.folding != nil {
		select {
		case err := <-x.folding:
			x.folded(err)
		case <-time.After(time.Second):
			x.stats.begin()
		}
	}
}
