package exchange

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// Options configure an exchange.
type Options struct {
	// Self is the cluster whose agent's market this is; empty at a broker.
	Self string
	// Clock defaults to SystemClock, Log to slog.Default.
	Clock Clock
	Log   *slog.Logger
	// Resume loads the journal again after an append with an unknown outcome. Set it for a journal
	// that is not a file. Default: Run ends.
	Resume bool
	// SnapshotEvery is the number of events between two snapshots. Default: 20,000, or the number
	// of the market's records if that is larger, because a snapshot writes all of them.
	SnapshotEvery uint64
	// TickEvery is the longest time between two looks at the clock. Default 250 ms.
	TickEvery time.Duration
	// AppendBytes is about the size of the largest append, half of it for tasks and the rest for ticks. An
	// append may be larger by the events of one task and one tick. Default 8 MiB.
	AppendBytes int
	// TaskBytes is how many bytes the events of one command may take. Default 32 MiB.
	TaskBytes int
}

// Exchange is a running market. Its methods may be called from any goroutine.
type Exchange struct {
	options Options
	journal journal.Journal
	log     *slog.Logger
	tasks   chan *task
	done    chan struct{}
	view    atomic.Pointer[market.View]
	lineage atomic.Pointer[string]
	stats   stats
	catalog catalog

	// Owned by the goroutine of Run.
	state       *market.State
	head        journal.Head
	clock       *steady
	compaction  compaction
	tail        tail
	expiryFrom  market.Time // no hold or reservation expires before
	behind      bool        // the last append had no space for all ticks
	appendBytes int         // of one append; less than in Options after the journal was full
	full        fullness
	noticed     market.Time // when the leases were last compared
	subscribers map[string]map[*Watch]struct{}
	followers   map[*Watch]struct{} // the watches that follow the catalog
	changes     []CatalogChange     // of this batch
	buffer      []byte              // for the events of the next append
}

const (
	maxBatch  = 512
	queueSize = 4096
	maxTicks  = 1000
	// appendBytes is the default of [Options].
	appendBytes = 8 << 20
	// maxTask is how many bytes the events of one task may take. So an append stays below journal.MaxBatch.
	maxTask = journal.MaxBatch / 2
	// noticeEvery is how often a broker compares its members' leases. Each comparison makes at most
	// one event.
	noticeEvery = time.Second
)

// Open loads the market from its journal. Errors: the journal's.
func Open(ctx context.Context, j journal.Journal, options Options) (*Exchange, error) {
	if options.Clock == nil {
		options.Clock = SystemClock()
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.TickEvery == 0 {
		options.TickEvery = 250 * time.Millisecond
	}
	if options.AppendBytes == 0 {
		options.AppendBytes = appendBytes
	}
	if options.TaskBytes == 0 {
		options.TaskBytes = maxTask
	}
	x := &Exchange{
		options: options, journal: j, log: options.Log,
		tasks: make(chan *task, queueSize), done: make(chan struct{}),
		subscribers: map[string]map[*Watch]struct{}{}, followers: map[*Watch]struct{}{},
	}
	x.stats.start, x.appendBytes = time.Now(), options.AppendBytes
	if err := x.load(ctx); err != nil {
		return nil, err
	}
	newest := x.state.Time.Go()
	x.clock = newSteady(options.Clock, newest)
	if behind := newest.Sub(x.clock.wall); behind > jumpLimit {
		x.log.Warn("the wall clock is behind the journal: time continues from the journal's", "by", behind)
	}
	x.stats.now.Store(int64(market.At(x.clock.now)))
	if x.head.Revision > 0 {
		x.pauseExpiry("the market was loaded")
	}
	x.view.Store(x.state.Publish(nil))
	return x, nil
}

func (x *Exchange) load(ctx context.Context) error {
	snapshot := uint64(0)
	var loaded tail
	var changes []CatalogChange
	each := func(e market.Event, s *market.State) {
		for _, change := range changesBy(e, s) {
			change.revision = s.Revision
			changes = append(changes, change)
		}
	}
	state, head, err := rebuild(ctx, x.options.Self, each, func(ctx context.Context,
		onSnapshot func(journal.Head, []byte) error,
		onRecord func(journal.Record) error) (journal.Head, error) {
		return x.journal.Load(ctx, func(head journal.Head, data []byte) error {
			snapshot, loaded.snapshot = head.Revision, int64(len(data))
			return onSnapshot(head, data)
		}, func(r journal.Record) error {
			for _, e := range r.Events {
				loaded.bytes += int64(len(e))
			}
			return onRecord(r)
		})
	})
	if err != nil {
		return err
	}
	x.state, x.head, x.tail = state, head, loaded
	x.compaction.revision, x.compaction.tried = snapshot, snapshot
	if x.options.Self == "" {
		x.catalog.begin(snapshot)
		x.catalog.add(changes)
	}
	x.lineage.Store(&head.Lineage)
	return nil
}

// Replay loads or reads a journal: see [journal.Journal].
type Replay func(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error)

// Rebuild returns the market of a broker and the head of its journal, without running it. Errors:
// the journal's.
func Rebuild(ctx context.Context, replay Replay) (*market.State, journal.Head, error) {
	return rebuild(ctx, "", func(market.Event, *market.State) {}, replay)
}

// decodedAhead is how many events are decoded ahead of the applied one.
const decodedAhead = 64

// rebuild calls each with every event after the snapshot, and the state after that event.
func rebuild(ctx context.Context, self string, each func(market.Event, *market.State),
	replay Replay) (*market.State, journal.Head, error) {
	state := market.New(self)
	read, events := market.NewEventReader(), make(chan market.Event, decodedAhead)
	var applying errgroup.Group
	applying.Go(func() error {
		for e := range events {
			state.Apply(e)
			each(e, state)
		}
		return nil
	})
	head, err := replay(ctx,
		func(_ journal.Head, data []byte) error {
			err := state.Restore(data)
			state.Resold() // the snapshot is not a change
			return err
		},
		func(r journal.Record) error {
			for _, data := range r.Events {
				e, err := read.Read(data)
				if err != nil {
					return err
				}
				events <- e
			}
			return nil
		})
	close(events)
	_ = applying.Wait()
	if err == nil && state.Revision != head.Revision {
		err = fmt.Errorf("journal: its head is at revision %d, but its events lead to %d",
			head.Revision, state.Revision)
	}
	if err != nil {
		return nil, journal.Head{}, err
	}
	return state, head, nil
}

// Lineage returns the lineage of the journal, to which revisions belong.
func (x *Exchange) Lineage() string { return *x.lineage.Load() }

// View returns the newest published view.
func (x *Exchange) View() *market.View { return x.view.Load() }
