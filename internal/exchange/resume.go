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
		o.outcome, o.err = market.Outcome{}, unknown(cause)
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

func unknown(cause error) error {
	if errors.Is(cause, journal.ErrFull) {
		return api.Errorf(api.CodeLedgerFull, "%v", cause)
	}
	return api.Errorf(api.CodeUnavailable, "it may or may not have been recorded").Fix("repeat the call")
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
