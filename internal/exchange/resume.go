package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// failBatch answers every command of a batch whose append has an unknown outcome. Even a refusal was decided
// on a state that may not exist. With Resume it loads the journal again, and returns the other tasks.
// Errors: without Resume cause; else those of resume.
func (x *Exchange) failBatch(ctx context.Context, batch []*task, cause error) (rest []*task, err error) {
	for _, o := range batch {
		if o.command == nil {
			rest = append(rest, o)
			continue
		}
		o.outcome, o.err = market.Outcome{}, unknown()
		close(o.answer)
	}
	switch {
	case !x.options.Resume:
		return nil, fmt.Errorf("append to the journal: %w", cause)
	case ctx.Err() != nil: // Run ends: no state is needed
		return nil, ctx.Err()
	}
	return rest, x.resume(ctx, cause)
}

// refused reports whether the journal wrote nothing of a batch, and would refuse the same batch again.
func refused(err error) bool {
	return errors.Is(err, journal.ErrInvalid) || errors.Is(err, journal.ErrFull)
}

// retryEach carries out the tasks of a refused batch, each in its own append. So only a task fails whose
// own events are refused. It compacts a full journal first.
func (x *Exchange) retryEach(ctx context.Context, batch []*task, cause error) error {
	x.log.Error("the journal refused a batch and wrote nothing: its commands are tried one by one",
		"commands", len(batch), "cause", cause)
	x.stats.refused.Add(1)
	x.behind = false // ticks wait for the next batch, too
	if err := x.resume(ctx, cause); err != nil {
		return err
	}
	if errors.Is(cause, journal.ErrFull) {
		x.makeSpace(ctx)
	}
	for i, o := range batch {
		if o.command == nil { // soft state was kept
			o.done(x.state)
			continue
		}
		w := newWriting(1, x.buffer)
		x.carryOut(w, o, x.look())
		err := x.commit(ctx, w)
		switch {
		case err == nil:
		case refused(err):
			o.outcome, o.err = market.Outcome{}, unwritten(err)
			err = x.resume(ctx, err)
		default:
			var left []*task
			left, err = x.failBatch(ctx, batch[i:], err)
			for _, o := range left {
				o.done(x.state)
			}
			return err
		}
		o.done(x.state)
		if err != nil {
			return err
		}
	}
	return nil
}

// makeSpace compacts a full journal. If that does not help, it makes appends smaller. If they are as small as
// possible, it pauses ticks.
func (x *Exchange) makeSpace(ctx context.Context) {
	before := x.compaction.revision
	x.compactNow(ctx)
	switch {
	case x.compaction.revision != before:
	case x.appendBytes > minAppend:
		x.appendBytes = max(x.appendBytes/2, minAppend)
	default:
		x.full.refused(x.clock.now)
	}
}

// unwritten returns the answer to a task that the journal refused.
func unwritten(cause error) error {
	if errors.Is(cause, journal.ErrFull) {
		return api.Errorf(api.CodeLedgerFull, "%v", cause)
	}
	return tooLarge("%v", cause)
}

func unknown() error {
	return api.Errorf(api.CodeUnavailable, "it may or may not have been recorded").Fix("repeat the call")
}

// resume loads the journal again after a failed append. It keeps soft state. Errors: *journal.RefusedError;
// ctx's.
func (x *Exchange) resume(ctx context.Context, cause error) error {
	x.log.Warn("the append failed: loading the journal again", "cause", cause)
	x.awaitCompaction() // it belongs to the state that is dropped
	old := x.state
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		x.stats.begin()
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
	if x.options.Self == "" { // advertisements were not received meanwhile
		x.pauseExpiry("the market was loaded again")
	}
	x.view.Store(x.state.Publish(nil))
	x.notifyAll()
	return nil
}
