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

// lost answers every command of a batch whose append failed, because even a refusal was decided on
// a state that never was. Without Resume the failure is the end; with it, what else is in the batch
// is left to be answered from the state as it was loaded again.
func (x *Exchange) lost(ctx context.Context, batch []*order, cause error) (rest []*order, err error) {
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
	case ctx.Err() != nil: // whoever stops now needs no state any more
		return nil, ctx.Err()
	}
	return rest, x.resume(ctx, cause)
}

// refused reports that the journal wrote nothing of a batch, and would not if the whole batch were tried again.
func refused(err error) bool {
	return errors.Is(err, journal.ErrInvalid) || errors.Is(err, journal.ErrFull)
}

// retry carries out the orders of a batch that the journal refused, each in an append of its own, so that only an order fails whose
// own events are refused. A journal that is full is folded before. Nothing was written, so each is decided for the first time. The
// market goes on whatever is refused.
func (x *Exchange) retry(ctx context.Context, batch []*order, cause error) error {
	x.log.Error("the journal refused a batch and wrote nothing: its orders are tried one by one", "orders", len(batch), "cause", cause)
	x.stats.refused.Add(1)
	x.behind = false // what time brings waits for the next look, too
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
			var left []*order
			left, err = x.lost(ctx, batch[i:], err)
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

// makeSpace folds a journal that was full. Where that does not help, less is appended at a time and, where that does not help either,
// what time brings pauses.
func (x *Exchange) makeSpace(ctx context.Context) {
	before := x.snapshot
	x.fold(ctx)
	switch {
	case x.snapshot != before:
	case x.appendBytes > minAppend:
		x.appendBytes = max(x.appendBytes/2, minAppend)
	default:
		x.full.refused(x.clock.now)
	}
}

// unwritten is the answer to an order that the journal refused.
func unwritten(cause error) error {
	if errors.Is(cause, journal.ErrFull) {
		return api.Errorf(api.CodeLedgerFull, "%v", cause)
	}
	return tooLarge("%v", cause)
}

func unknown() error {
	return api.Errorf(api.CodeUnavailable, "it may or may not have been recorded").Fix("repeat the call")
}

// resume loads the state again, after an append that was refused, whose outcome is not known, or that another writer was faster
// than. Soft state is kept.
func (x *Exchange) resume(ctx context.Context, cause error) error {
	x.log.Warn("the append failed: loading the journal again", "cause", cause)
	x.awaitFold() // it is of what was loaded before
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
	if x.options.Self == "" { // it took a while, in which nobody was heard
		x.wait("the market was loaded again")
	}
	x.view.Store(x.state.Publish(nil))
	x.feedAll()
	return nil
}
