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

// Options say how an exchange runs.
type Options struct {
	// Self is the cluster whose agent's market this is; empty at a broker.
	Self string
	// Clock defaults to the machine's, Log to slog.Default.
	Clock Clock
	Log   *slog.Logger
	// Resume loads the state again after an append whose outcome is unknown, instead of
	// ending: for a journal that is not a file.
	Resume bool
	// SnapshotEvery is after how many events the journal is folded. Default 20,000, or as many
	// as the market has records if these are more: a snapshot writes all of them.
	SnapshotEvery uint64
	// TickEvery is how often time is looked at. Default 250 ms.
	TickEvery time.Duration
	// AppendBytes is about how many bytes of events go into one append: half of them for orders, the rest for what time brings. An
	// append is larger by at most the events of one order and one tick. Default 8 MiB.
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
	snapshot    uint64 // revision of the last snapshot
	foldedAt    uint64 // revision at which the journal was last folded, or could not be
	foldNext    time.Time
	folding     chan error
	foldingAt   uint64
	tail        tail
	foldedSize  atomic.Int64 // of the newest snapshot, in bytes
	waitHolds   market.Time  // time alone changes nothing before
	behind      bool         // the last append had no space for all that time brought
	appendBytes int          // of one append, at present: less than Options say after one for which the journal had no space
	full        fullness     // whether the journal has space for what time brings
	noticed     market.Time  // when the leases were last looked at
	subscribers map[string]map[*Watch]struct{}
	shoppers    map[*Watch]struct{} // those that follow the catalog
	changes     []CatalogChange     // of this batch
	buffer      []byte              // of the events that are appended, used again
}

const (
	maxBatch  = 512
	queueSize = 4096
	maxTicks  = 1000
	// appendBytes is the default of Options.AppendBytes.
	appendBytes = 8 << 20
	// maxOrder is the most bytes that the events of one order may take. With it, an append is under journal.MaxBatch.
	maxOrder = journal.MaxBatch / 2
	// noticeEvery is how often a broker looks at its members' leases: what it notices is one event, and so one commit.
	noticeEvery = time.Second
)

// Open loads the market from its journal. Errors are the journal's.
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
		subscribers: map[string]map[*Watch]struct{}{}, shoppers: map[*Watch]struct{}{},
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
		x.wait("the market was loaded")
	}
	x.view.Store(x.state.Publish(nil))
	return x, nil
}

func (x *Exchange) load(ctx context.Context) error {
	folded := uint64(0)
	var loaded tail
	var head journal.Head
	var changes []CatalogChange
	each := func(e market.Event, s *market.State) {
		for _, change := range changesBy(e, s) {
			change.revision = s.Revision
			changes = append(changes, change)
		}
	}
	state, err := fold(x.options.Self, each, func(onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (_ journal.Head, err error) {
		head, err = x.journal.Load(ctx, func(at journal.Head, data []byte) error {
			folded, loaded.snapshot = at.Revision, int64(len(data))
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
	x.state, x.head, x.snapshot, x.foldedAt, x.tail = state, head, folded, folded, loaded
	if x.options.Self == "" {
		x.catalog.begin(folded)
		x.catalog.add(changes)
	}
	x.lineage.Store(&head.Lineage)
	return nil
}

// Replay is what a journal does when it is loaded or read: see [journal.Journal].
type Replay func(onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error)

// Fold makes a broker's market of what a journal holds, without running it. Errors are the journal's.
func Fold(replay Replay) (*market.State, error) {
	return fold("", func(market.Event, *market.State) {}, replay)
}

// decodedAhead is how many events are decoded ahead of the one that is applied.
const decodedAhead = 64

// fold tells each of the events after the snapshot, once it is true.
func fold(self string, each func(market.Event, *market.State), replay Replay) (*market.State, error) {
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
			state.Resold() // what is in a snapshot is no news
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
		return nil, fmt.Errorf("journal: it is at revision %d, its events at %d", head.Revision, state.Revision)
	}
	return state, nil
}

// onAllCores is a [market.Each].
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

// Lineage names the life of the journal that revisions belong to.
func (x *Exchange) Lineage() string { return *x.lineage.Load() }

// View is the newest published view.
func (x *Exchange) View() *market.View { return x.view.Load() }

// Run owns the state until ctx ends or the journal fails. The error is nil only when ctx ended.
func (x *Exchange) Run(ctx context.Context) error {
	defer close(x.done)
	defer x.closeWatches()
	defer x.awaitFold()
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
		case err := <-x.folding:
			x.folded(err)
			continue
		case <-ctx.Done():
			return nil
		}
		if err := x.runAll(ctx, batch); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil // nothing that was acknowledged is lost
			}
			return err
		}
	}
}

// gather takes what else is waiting. Those who are about to ask go first, as long as more of them come: where they wait for a core, a commit
// of what few have asked would take it from them, and each would cost as much as one of what all ask.
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

// answerReads lets those look who only want to, and leaves the others: before a batch all that the state says is durable, so
// they need not wait for its commit.
func (x *Exchange) answerReads(batch []*order) []*order {
	return slices.DeleteFunc(batch, func(o *order) bool {
		if o.read != nil {
			o.done(x.state)
		}
		return o.read != nil
	})
}

// run carries out one batch, in the order that the package's comment gives, or as much of it as
// fits into one append; the rest is for the next.
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
		return rest, x.retry(ctx, batch, err)
	default:
		if batch, err = x.lost(ctx, batch, err); err != nil {
			return nil, err
		}
	}
	for _, o := range batch {
		o.done(x.state)
	}
	x.startFold(ctx)
	return rest, nil
}

// carryOut decides an order. Its events are applied only if a journal can take them: else the order fails, and nothing has changed.
func (x *Exchange) carryOut(w *writing, o *order, now market.Time) {
	switch {
	case o.command != nil:
		if o.outcome, o.err = market.Decide(x.state, o.command, now); o.err != nil {
			return
		}
		if o.err = x.mayAdd(o); o.err == nil {
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

// commit appends what was applied, and shows it once it is durable.
func (x *Exchange) commit(ctx context.Context, w *writing) error {
	if err := x.append(ctx, w); err != nil {
		return err
	}
	x.publish()
	x.changed(w.events)
	x.feed(w.events)
	return nil
}

// tick lets time pass, unless expiry waits, and does what is owed. What does not fit into one append is left for the next, which
// follows at once.
func (x *Exchange) tick(w *writing, now market.Time) {
	x.behind = false
	if x.full.pauses(x.clock.now) {
		return
	}
	for n := 0; ; n++ {
		out, _ := market.Decide(x.state, market.Tick{Waits: now < x.waitHolds}, now)
		if len(out.Events) == 0 {
			return
		}
		if err := w.add(out.Events, maxOrder); err != nil {
			x.log.Error("nothing that time brings is recorded: this is a bug", "error", err)
			return
		}
		x.apply(out.Events)
		if n+1 >= maxTicks || len(w.buffer) > x.appendBytes {
			x.behind = true
			return
		}
	}
}

// notice lets a broker notice whose lease ended and who is back, unless silence says nothing about anyone.
func (x *Exchange) notice(w *writing, now market.Time) {
	if x.options.Self != "" || now < x.waitHolds {
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

// look looks at the clock, and lets expiry wait when silence says nothing about anyone.
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
		x.wait("the clock jumped")
	case paused != 0:
		x.log.Warn("the process stood still", "for", paused)
		x.wait("the process stood still")
	}
	return market.At(now)
}

// wait lets every lease run anew and, at a broker, no hold end before one has.
func (x *Exchange) wait(why string) {
	now := market.At(x.clock.now)
	x.state.RestartLeases(now)
	if x.options.Self == "" {
		x.waitHolds = now + market.Time(market.Lease.Milliseconds())
		x.log.Info("expiry pauses for one lease", "why", why, "until", x.waitHolds.Go())
	}
}
