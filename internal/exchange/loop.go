package exchange

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

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
		var batch []*task
		var rest <-chan struct{}
		if x.behind {
			rest = always
		}
		select {
		case o := <-x.tasks:
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

// gather returns the tasks that wait. It yields the processor while the queue grows, so that
// callers about to enqueue join this commit instead of each paying for their own.
func (x *Exchange) gather(first *task) []*task {
	for waiting := -1; waiting < len(x.tasks); runtime.Gosched() {
		waiting = len(x.tasks)
	}
	batch := append(make([]*task, 0, 1+len(x.tasks)), first)
	for len(batch) < maxBatch {
		select {
		case o := <-x.tasks:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

func (x *Exchange) runAll(ctx context.Context, batch []*task) error {
	if slices.ContainsFunc(batch, (*task).writes) {
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

// answerReads answers the reads of a batch and returns the other tasks. Before the batch the whole state is
// durable, so reads need not wait for a commit.
func (x *Exchange) answerReads(batch []*task) []*task {
	return slices.DeleteFunc(batch, func(o *task) bool {
		if o.read != nil {
			o.done(x.state)
		}
		return o.read != nil
	})
}

// run carries out one batch, in the order that the package comment gives. It returns the tasks for which the
// append has no space.
func (x *Exchange) run(ctx context.Context, batch []*task) (rest []*task, err error) {
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

// carryOut decides a task. It applies the events only if the journal can take them. Otherwise the
// task fails.
func (x *Exchange) carryOut(w *writing, o *task, now market.Time) {
	switch {
	case o.command != nil:
		if o.outcome, o.err = market.Decide(x.state, o.command, now); o.err != nil {
			return
		}
		if o.err = x.checkSpace(o); o.err == nil {
			o.err = w.add(o.outcome.Events, x.options.TaskBytes)
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
		if err := w.add(out.Events, maxTask); err != nil {
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
		if out, _ := market.Decide(x.state, market.Notice{}, now); w.add(out.Events, maxTask) == nil {
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
