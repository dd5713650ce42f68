package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
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

	// Owned by the goroutine of Run.
	state       *market.State
	head        journal.Head
	clock       *steady
	foldedAt    uint64 // revision of the last snapshot
	folding     chan error
	waitHolds   market.Time // time alone changes nothing before
	subscribers map[string]map[*Watch]struct{}
	buffer      []byte // of the events that are appended, used again
}

const (
	maxBatch  = 512
	queueSize = 4096
	maxTicks  = 1000
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
	x := &Exchange{
		options: options, journal: j, log: options.Log,
		orders: make(chan *order, queueSize), done: make(chan struct{}),
		subscribers: map[string]map[*Watch]struct{}{},
	}
	if err := x.load(ctx); err != nil {
		return nil, err
	}
	newest := x.state.Time.Go()
	x.clock = newSteady(options.Clock, newest)
	if behind := newest.Sub(x.clock.wall); behind > jumpLimit {
		x.log.Warn("the wall clock is behind the journal: time goes on from the journal's", "by", behind)
	}
	x.stats.now.Store(int64(market.At(x.clock.now)))
	if x.head.Revision > 0 {
		x.wait("the market was loaded")
	}
	x.view.Store(x.state.Publish(nil))
	return x, nil
}

func (x *Exchange) load(ctx context.Context) error {
	state := market.New(x.options.Self)
	folded := uint64(0)
	head, err := x.journal.Load(ctx,
		func(at journal.Head, data []byte) error { folded = at.Revision; return state.Restore(data) },
		func(r journal.Record) error {
			for _, data := range r.Events {
				e, err := market.DecodeEvent(data)
				if err != nil {
					return err
				}
				state.Apply(e)
			}
			return nil
		})
	if err != nil {
		return err
	}
	if state.Revision != head.Revision {
		return fmt.Errorf("journal: it is at revision %d, its events at %d", head.Revision, state.Revision)
	}
	x.state, x.head, x.foldedAt = state, head, folded
	x.lineage.Store(&head.Lineage)
	return nil
}

// Lineage names the life of the journal that revisions belong to.
func (x *Exchange) Lineage() string { return *x.lineage.Load() }

// View is the newest published view.
func (x *Exchange) View() *market.View { return x.view.Load() }

// order is something to be done by the owner: a command, or a look at the state.
type order struct {
	command market.Command
	observe func(s *market.State, now market.Time) error // soft state, before the commit
	read    func(s *market.State)                        // after the commit
	outcome market.Outcome
	err     error
	answer  chan struct{}
	claimed atomic.Bool // of a read: by the owner that runs it, or by the caller that went away
}

var errStopped = api.Errorf(api.CodeUnavailable, "the market is not running").Fix("try again")

// Do decides a command and makes it durable. Errors: the command's own; Unavailable
// when the exchange stops or the journal's answer was lost: repeat the command.
func (x *Exchange) Do(ctx context.Context, c market.Command) (market.Outcome, error) {
	o := &order{command: c}
	if err := x.give(ctx, o); err != nil {
		return market.Outcome{}, err
	}
	return o.outcome, nil
}

// Observe takes in an advertisement. Errors: StaleAdvertisement, Unavailable.
func (x *Exchange) Observe(ctx context.Context, cluster string, m *market.Measured, fresh bool) error {
	return x.give(ctx, &order{observe: func(s *market.State, now market.Time) error {
		return s.Observe(cluster, m, now, fresh)
	}})
}

// Read looks at the state, between two batches: what it sees is durable. look must be
// quick and must not keep what it got, but for records and listings, which are immutable.
func (x *Exchange) Read(ctx context.Context, look func(*market.State)) error {
	return x.give(ctx, &order{read: look})
}

// Now is the exchange's time.
func (x *Exchange) Now() market.Time { return market.Time(x.stats.now.Load()) }

func (x *Exchange) give(ctx context.Context, o *order) error {
	o.answer = make(chan struct{})
	select {
	case x.orders <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return errStopped
	}
	select {
	case <-o.answer:
		return o.err
	case <-ctx.Done():
		if o.read != nil && !o.claimed.CompareAndSwap(false, true) {
			<-o.answer // look is running: the caller must not go on beside it
			return o.err
		}
		return ctx.Err()
	case <-x.done:
		select {
		case <-o.answer:
			return o.err
		default:
			return errStopped
		}
	}
}

// Run owns the state until ctx ends or the journal fails. The error is nil only when ctx ended.
func (x *Exchange) Run(ctx context.Context) error {
	defer close(x.done)
	defer x.closeWatches()
	defer x.awaitFold()
	ticker := time.NewTicker(x.options.TickEvery)
	defer ticker.Stop()
	for {
		var batch []*order
		select {
		case o := <-x.orders:
			batch = x.gather(o)
		case <-ticker.C:
		case err := <-x.folding:
			x.folded(err)
			continue
		case <-ctx.Done():
			return nil
		}
		if err := x.run(ctx, batch); err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil // nothing was written
			}
			return err
		}
	}
}

// gather takes what else is waiting, or about to be.
func (x *Exchange) gather(first *order) []*order {
	runtime.Gosched()
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

// run carries out one batch, in the order that the package's comment gives.
func (x *Exchange) run(ctx context.Context, batch []*order) error {
	now := x.look()
	var events []market.Event
	for _, o := range batch {
		switch {
		case o.command != nil:
			if o.outcome, o.err = market.Decide(x.state, o.command, now); o.err == nil {
				events = x.apply(events, o.outcome.Events)
			}
		case o.observe != nil:
			o.err = o.observe(x.state, now)
		}
	}
	events = x.tick(events, now)
	if err := x.append(ctx, events); err != nil {
		if batch, err = x.lost(ctx, batch, err); err != nil {
			return err
		}
	} else {
		x.publish()
		x.feed(events)
	}
	for _, o := range batch {
		if o.read != nil && o.claimed.CompareAndSwap(false, true) {
			o.read(x.state)
		}
		close(o.answer)
	}
	x.startFold(ctx)
	return nil
}

func (x *Exchange) apply(events, more []market.Event) []market.Event {
	for _, e := range more {
		x.state.Apply(e)
	}
	return append(events, more...)
}

// tick lets time pass, unless expiry waits.
func (x *Exchange) tick(events []market.Event, now market.Time) []market.Event {
	if now < x.waitHolds {
		return events
	}
	for range maxTicks {
		out, _ := market.Decide(x.state, market.Tick{}, now)
		if len(out.Events) == 0 {
			break
		}
		events = x.apply(events, out.Events)
	}
	return events
}

func (x *Exchange) append(ctx context.Context, events []market.Event) error {
	if len(events) == 0 {
		return nil
	}
	data, buffer := make([][]byte, len(events)), x.buffer[:0]
	for i, e := range events {
		before, err := len(buffer), error(nil)
		if buffer, err = e.Append(buffer); err != nil {
			return err
		}
		data[i] = buffer[before:len(buffer):len(buffer)]
	}
	x.buffer = buffer // a journal keeps nothing of it
	start := time.Now()
	head, err := x.journal.Append(ctx, x.head, data)
	x.stats.appended(len(events), time.Since(start), err)
	if err != nil {
		return err
	}
	x.head = head
	return nil
}

// lost answers every command of a batch whose append failed, because even a refusal was decided on
// a state that never was. Without Resume the failure is the end; with it, what else is in the batch
// is left to be answered from the state as it was loaded again.
func (x *Exchange) lost(ctx context.Context, batch []*order, cause error) (rest []*order, err error) {
	answer := api.Errorf(api.CodeUnavailable, "it may or may not have been recorded").Fix("repeat the call")
	if errors.Is(cause, journal.ErrFull) {
		answer = api.Errorf(api.CodeLedgerFull, "%v", cause)
	}
	for _, o := range batch {
		if o.command == nil {
			rest = append(rest, o)
			continue
		}
		o.outcome, o.err = market.Outcome{}, answer
		close(o.answer)
	}
	if !x.options.Resume || ctx.Err() != nil {
		return nil, fmt.Errorf("append to the journal: %w", cause)
	}
	return rest, x.resume(ctx, cause)
}

// resume loads the state again, after an append whose outcome is not known or that
// another writer was faster than. Soft state is kept.
func (x *Exchange) resume(ctx context.Context, cause error) error {
	x.log.Warn("journal changed under us: loading it again", "cause", cause)
	old := x.state
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := x.load(ctx)
		if err == nil {
			break
		}
		if _, refused := errors.AsType[*journal.RefusedError](err); refused {
			return err
		}
		x.log.Warn("journal not readable, trying again", "error", err, "in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	x.clock.notBefore(x.state.Time.Go())
	x.state.TakeMeasurements(old)
	x.view.Store(x.state.Publish(nil))
	x.feedAll()
	return nil
}

func (x *Exchange) publish() {
	x.view.Store(x.state.Publish(x.view.Load()))
}

// look looks at the clock, and lets expiry wait when silence says nothing about anyone.
func (x *Exchange) look() market.Time {
	now, jumped, paused := x.clock.look()
	x.stats.now.Store(int64(market.At(now)))
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
