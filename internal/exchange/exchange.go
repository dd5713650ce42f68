package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
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
	// AppendBytes is about the size of the largest append, half of it for orders and the rest for ticks. An
	// append may be larger by the events of one order and one tick. Default 8 MiB.
	AppendBytes int
}

// Exchange is a running market. Its methods may be called from any goroutine.
type Exchange struct {
	options Options
	journal journal.Journal
	log     *slog.Logger
	orders  chan *order
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
	// maxOrder is how many bytes the events of one order may take. So an append stays below journal.MaxBatch.
	maxOrder = journal.MaxBatch / 2
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
	x := &Exchange{
		options: options, journal: j, log: options.Log,
		orders: make(chan *order, queueSize), done: make(chan struct{}),
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
	var head journal.Head
	var changes []CatalogChange
	each := func(e market.Event, s *market.State) {
		for _, change := range changesBy(e, s) {
			change.revision = s.Revision
			changes = append(changes, change)
		}
	}
	state, err := rebuild(x.options.Self, each, func(onSnapshot func(journal.Head, []byte) error,
		onRecord func(journal.Record) error) (_ journal.Head, err error) {
		head, err = x.journal.Load(ctx, func(at journal.Head, data []byte) error {
			snapshot, loaded.snapshot = at.Revision, int64(len(data))
			return onSnapshot(at, data)
		}, func(r journal.Record) error {
			for _, e := range r.Events {
				loaded.bytes += int64(len(e))
			}
			return onRecord(r)
		})
		return head, err
	})
	if err != nil {
		return err
	}
	x.state, x.head, x.tail = state, head, loaded
	x.compaction.at, x.compaction.tried = snapshot, snapshot
	if x.options.Self == "" {
		x.catalog.begin(snapshot)
		x.catalog.add(changes)
	}
	x.lineage.Store(&head.Lineage)
	return nil
}

// Replay loads or reads a journal: see [journal.Journal].
type Replay func(onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error)

// Rebuild returns the market of a broker from its journal, without running it. Errors: the journal's.
func Rebuild(replay Replay) (*market.State, error) {
	return rebuild("", func(market.Event, *market.State) {}, replay)
}

// decodedAhead is how many events are decoded ahead of the applied one.
const decodedAhead = 64

// rebuild calls each with every event after the snapshot, and the state after that event.
func rebuild(self string, each func(market.Event, *market.State), replay Replay) (*market.State, error) {
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
	head, err := replay(
		func(_ journal.Head, data []byte) error {
			err := state.Restore(data, onAllCores)
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
	if err != nil {
		return nil, err
	}
	if state.Revision != head.Revision {
		return nil, fmt.Errorf("journal: its head is at revision %d, but its events lead to %d",
			head.Revision, state.Revision)
	}
	return state, nil
}

// onAllCores is a [market.Each] that reads on all cores.
func onAllCores(n int, read, take func(int)) {
	done := make([]chan struct{}, n)
	for i := range done {
		done[i] = make(chan struct{})
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	go func() {
		for i := range n {
			group.Go(func() error {
				read(i)
				close(done[i])
				return nil
			})
		}
	}()
	for i := range n {
		<-done[i]
		take(i)
	}
}

// Lineage returns the lineage of the journal, to which revisions belong.
func (x *Exchange) Lineage() string { return *x.lineage.Load() }

// View returns the newest published view.
func (x *Exchange) View() *market.View { return x.view.Load() }

// Run owns the state until ctx ends or the journal fails. It returns nil only if ctx ended.
func (x *Exchange) Run(ctx context.Context) error {
	defer close(x.done)
	defer x.closeWatches()
	defer x.awaitCompaction()
	ticker := time.NewTicker(x.options.TickEvery)
	defer ticker.Stop()
	always := make(chan struct{})
	close(always)
	for {
		var batch []*order
		var rest <-chan struct{}
		if x.behind {
			rest = always
		}
		select {
		case o := <-x.orders:
			batch = x.gather(o)
		case <-rest:
		case <-ticker.C:
		case err := <-x.compaction.running:
			x.compacted(err)
			continue
		case <-ctx.Done():
			return nil
		}
		if err := x.runAll(ctx, batch); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil // what was acknowledged is durable
			}
			return err
		}
	}
}

// gather returns the orders that wait. It yields the processor while the queue grows, so that
// callers about to enqueue join this commit instead of each paying for their own.
func (x *Exchange) gather(first *order) []*order {
	for waiting := -1; waiting < len(x.orders); runtime.Gosched() {
		waiting = len(x.orders)
	}
	batch := append(make([]*order, 0, 1+len(x.orders)), first)
	for len(batch) < maxBatch {
		select {
		case o := <-x.orders:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

func (x *Exchange) runAll(ctx context.Context, batch []*order) error {
	if slices.ContainsFunc(batch, (*order).writes) {
		batch = x.answerReads(batch)
	}
	for {
		rest, err := x.run(ctx, batch)
		if err != nil || len(rest) == 0 {
			return err
		}
		batch = rest
	}
}

// answerReads answers the reads of a batch and returns the other orders. Before the batch the whole state is
// durable, so reads need not wait for a commit.
func (x *Exchange) answerReads(batch []*order) []*order {
	return slices.DeleteFunc(batch, func(o *order) bool {
		if o.read != nil {
			o.done(x.state)
		}
		return o.read != nil
	})
}

// run carries out one batch, in the order that the package comment gives. It returns the orders for which the
// append has no space.
func (x *Exchange) run(ctx context.Context, batch []*order) (rest []*order, err error) {
	now := x.look()
	w := newWriting(len(batch), x.buffer)
	for i, o := range batch {
		x.carryOut(w, o, now)
		if len(w.buffer) > x.appendBytes/2 {
			batch, rest = batch[:i+1], batch[i+1:]
			break
		}
	}
	x.tick(w, now)
	x.notice(w, now)
	switch err := x.commit(ctx, w); {
	case err == nil:
	case refused(err):
		return rest, x.retryEach(ctx, batch, err)
	default:
		if batch, err = x.failBatch(ctx, batch, err); err != nil {
			return nil, err
		}
	}
	for _, o := range batch {
		o.done(x.state)
	}
	x.compact(ctx)
	return rest, nil
}

// carryOut decides an order. It applies the events only if the journal can take them. Otherwise the
// order fails.
func (x *Exchange) carryOut(w *writing, o *order, now market.Time) {
	switch {
	case o.command != nil:
		if o.outcome, o.err = market.Decide(x.state, o.command, now); o.err != nil {
			return
		}
		if o.err = x.checkSpace(o); o.err == nil {
			o.err = w.add(o.outcome.Events, maxOrder)
		}
		if o.err != nil {
			o.outcome = market.Outcome{}
			return
		}
		x.apply(o.outcome.Events)
		x.state.Remember(o.outcome.Rejected)
	case o.observe != nil:
		o.err = o.observe(x.state, now)
	}
}

func (x *Exchange) apply(events []market.Event) {
	for _, e := range events {
		x.state.Apply(e)
	}
}

// commit appends the applied events. Once they are durable, it publishes them.
func (x *Exchange) commit(ctx context.Context, w *writing) error {
	if err := x.append(ctx, w); err != nil {
		return err
	}
	x.publish()
	x.notifyCatalog(w.events)
	x.notify(w.events)
	return nil
}

// tick decides what time brings, unless expiry pauses, and what a change of a member requires. If the append
// has no space for all, the next one follows at once.
func (x *Exchange) tick(w *writing, now market.Time) {
	x.behind = false
	if x.full.pauses(x.clock.now) {
		return
	}
	for n := 0; ; n++ {
		out, _ := market.Decide(x.state, market.Tick{Waits: now < x.expiryFrom}, now)
		if len(out.Events) == 0 {
			return
		}
		if err := w.add(out.Events, maxOrder); err != nil {
			x.log.Error("the events of a tick cannot be recorded: this is a bug", "error", err)
			return
		}
		x.apply(out.Events)
		if n+1 >= maxTicks || len(w.buffer) > x.appendBytes {
			x.behind = true
			return
		}
	}
}

// notice records at a broker which leases ended or began again, unless expiry pauses.
func (x *Exchange) notice(w *writing, now market.Time) {
	if x.options.Self != "" || now < x.expiryFrom {
		return
	}
	x.state.Wake(now)
	if now >= x.noticed+market.Time(noticeEvery.Milliseconds()) {
		x.noticed = now
		if out, _ := market.Decide(x.state, market.Notice{}, now); w.add(out.Events, maxOrder) == nil {
			x.apply(out.Events)
		}
	}
}

func (x *Exchange) publish() {
	x.view.Store(x.state.Publish(x.view.Load()))
}

// look reads the clock. After a jump or a pause, it pauses expiry: no agent could be heard.
func (x *Exchange) look() market.Time {
	x.stats.begin()
	before := market.At(x.clock.now)
	now, jumped, paused := x.clock.look()
	x.stats.now.Store(int64(market.At(now)))
	if jumped != 0 || paused != 0 {
		x.state.Sleep(before)
	}
	switch {
	case jumped != 0:
		x.stats.jumps.Add(1)
		x.log.Warn("the wall clock jumped: it is not followed; if it is right now, restart", "by", jumped)
		x.pauseExpiry("the clock jumped")
	case paused != 0:
		x.log.Warn("the process stood still", "for", paused)
		x.pauseExpiry("the process stood still")
	}
	return market.At(now)
}

// pauseExpiry restarts every lease. At a broker, nothing expires for the time of one lease.
func (x *Exchange) pauseExpiry(why string) {
	now := market.At(x.clock.now)
	x.state.RestartLeases(now)
	if x.options.Self == "" {
		x.expiryFrom = now + market.Time(market.Lease.Milliseconds())
		x.log.Info("expiry pauses for one lease", "why", why, "until", x.expiryFrom.Go())
	}
}
