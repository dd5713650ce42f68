package exchange

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	snapshotEvery = 20_000
	// A journal without a bound is also compacted by the bytes of its events: when they take four
	// times as much as the snapshot, at least compactBytes and at most maxCompactBytes, or a
	// quarter of the snapshot if that is more. Each snapshot writes the whole market, so a larger
	// market is compacted less often.
	compactBytes, maxCompactBytes = 64 << 20, 512 << 20
	// mostTail is how many bytes of events may be added while a snapshot is written. Then events wait for it.
	mostTail = 768 << 20
)

// compaction is the progress of snapshots, which replace the events before them.
type compaction struct {
	revision uint64       // revision of the last snapshot
	tried    uint64       // head when a snapshot last ended or failed
	next     time.Time    // no snapshot begins before, where space is scarce
	running  chan error   // receives the result of the snapshot that is being written; nil: none is
	runs     uint64       // its revision
	size     atomic.Int64 // of the newest snapshot, in bytes
}

// tail is the size of the events that are not in a snapshot, in bytes.
type tail struct {
	bytes    int64
	included int64 // of them in the snapshot that is being written
	snapshot int64 // size of the last snapshot
	retry    int64 // after a failed snapshot, the size at which the next one is tried
}

// due reports whether the tail is so large that the journal must be compacted.
func (t tail) due() bool {
	return t.bytes >= max(compactBytes, min(4*t.snapshot, maxCompactBytes), t.snapshot/4, t.retry)
}

// compact begins to write a snapshot in the background if one is due.
func (x *Exchange) compact(ctx context.Context) {
	if x.tail.bytes >= mostTail {
		x.awaitCompaction()
	}
	if x.compaction.running != nil || !x.compactionDue() {
		return
	}
	store := x.store(ctx)
	running := make(chan error, 1)
	x.compaction.running, x.compaction.runs, x.tail.included = running, x.head.Revision, x.tail.bytes
	go func() { running <- store() }()
}

// store collects a snapshot. The returned function encodes and stores it. It may run on any goroutine, later.
func (x *Exchange) store(ctx context.Context) func() error {
	head, encode := x.head, x.state.Snapshot()
	return func() error {
		size := new(counting)
		err := x.journal.Snapshot(ctx, head, func(w io.Writer) error { return encode(io.MultiWriter(w, size)) })
		x.compaction.size.Store(int64(*size))
		return err
	}
}

// counting is the number of bytes that were written to it.
type counting int64

// Write implements io.Writer.
func (c *counting) Write(data []byte) (int, error) {
	*c += counting(len(data))
	return len(data), nil
}

// compactionDue reports whether enough happened since the last snapshot. A snapshot writes the
// whole market. So in a journal with a bound, the events must also take a quarter of the snapshot's
// size. Where space is scarce, a small part is enough, and after compactRest any event: a short one
// may say that much is forgotten.
func (x *Exchange) compactionDue() bool {
	every := x.options.SnapshotEvery
	if every == 0 {
		every = max(snapshotEvery, uint64(x.state.Len()))
	}
	enough := x.head.Revision-x.compaction.tried >= every
	switch size := x.journal.Size(); {
	case size.Space == 0:
		return enough || x.tail.due()
	case size.Use() >= Crowded*3/4:
		next := x.compaction.next
		if size.Tail < size.Snapshot/32 {
			next = next.Add(compactRest)
		}
		return x.head.Revision > x.compaction.revision && !x.clock.now.Before(next)
	default:
		return enough && size.Tail >= size.Snapshot/4
	}
}

// A journal with little space is not compacted for compactPause after a failure, and for
// compactRest if little was written since the last time.
const compactPause, compactRest = 5 * time.Second, time.Minute

// Crowded is the share of its space at which a journal accepts nothing new. The rest is for ends, and for
// forgetting.
const Crowded = 0.6

// checkSpace reports why the journal has no space for what a command adds, or nil. Errors: LedgerFull.
func (x *Exchange) checkSpace(o *task) error {
	size := x.journal.Size()
	if size.Use() < maxShare || !x.state.Adds(o.command, o.outcome.Events) {
		return nil
	}
	if size.Use() < Crowded {
		return x.checkShare(size, o.outcome.Events)
	}
	return api.Errorf(api.CodeLedgerFull, "it takes %s, and nothing new is accepted from %.0f %% on", size, Crowded*100).
		Fix("release or evict reservations, or wait until some have ended and been forgotten")
}

// maxShare is the largest share of the space for one consumer, with what ended within the last
// hour. If others have some of it, a consumer gets at most half of what they leave.
const maxShare = Crowded / 2

// checkShare reports why the journal accepts nothing more of a consumer, or nil. A consumer's share, by the
// bytes of its reservations, must be less than what is left for all. So no consumer keeps out the others.
// Errors: LedgerFull.
func (x *Exchange) checkShare(size journal.Size, events []market.Event) error {
	for _, e := range events {
		if e.Reservation == nil || e.Reservation.Consumer == x.options.Self {
			continue
		}
		has, all := x.state.BytesOf(e.Reservation.Consumer)
		left := Crowded - size.Use()
		if share := size.Use() * float64(has) / float64(max(all, 1)); share >= left {
			return api.Errorf(api.CodeLedgerFull, "reservations of %s take %.1f %% of its space, and %.1f %% are left for all: "+
				"one consumer may take as much as is left", e.Reservation.Consumer, share*100, left*100).
				Fix("release or evict some of them, or wait until they have ended and been forgotten")
		}
	}
	return nil
}

// Size returns how much of its space the journal takes.
func (x *Exchange) Size() journal.Size { return x.journal.Size() }

// compactNow stores a snapshot at once, if there are events after the last one.
func (x *Exchange) compactNow(ctx context.Context) {
	if x.compaction.revision == x.head.Revision {
		return
	}
	x.compaction.runs, x.tail.included = x.head.Revision, x.tail.bytes
	x.compacted(x.store(ctx)())
}

// compacted records the result of a snapshot. After a failure the journal is longer, which harms
// nothing else.
func (x *Exchange) compacted(err error) {
	c := &x.compaction
	c.running, c.tried, c.next = nil, x.head.Revision, x.clock.now
	if err != nil {
		c.next = c.next.Add(compactPause)
		x.tail.retry = x.tail.bytes + compactBytes
		x.log.Warn("snapshot of the market not stored", "error", err)
		return
	}
	c.revision = c.runs
	x.tail = tail{bytes: x.tail.bytes - x.tail.included, snapshot: c.size.Load()}
}

// awaitCompaction waits for the snapshot that is being written. A slow disk may take long:
// meanwhile the owner shows that it runs.
func (x *Exchange) awaitCompaction() {
	for x.compaction.running != nil {
		select {
		case err := <-x.compaction.running:
			x.compacted(err)
		case <-time.After(time.Second):
			x.stats.begin()
		}
	}
}
