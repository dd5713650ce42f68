package exchange

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// task is work for the owner: a command, an observation or a read. One of these fields is set.
type task struct {
	command market.Command
	observe func(s *market.State, now market.Time) error // changes soft state, before the commit
	read    func(s *market.State)                        // reads durable state
	outcome market.Outcome
	err     error
	answer  chan struct{}
	claimed atomic.Bool // a read is run by the owner, or cancelled by its caller
}

// writes reports whether the task may add events.
func (o *task) writes() bool { return o.command != nil }

// done answers a task. Everything that the answer says must be durable.
func (o *task) done(s *market.State) {
	if o.read != nil && o.claimed.CompareAndSwap(false, true) {
		o.read(s)
	}
	close(o.answer)
}

// Do decides a command and makes its events durable. Errors: the command's; Unavailable if the exchange
// stops or the journal's answer was lost: repeat the command.
func (x *Exchange) Do(ctx context.Context, c market.Command) (market.Outcome, error) {
	market.Prepare(c)
	o := &task{command: c}
	if err := x.submit(ctx, o); err != nil {
		return market.Outcome{}, err
	}
	return o.outcome, nil
}

// Observe stores an advertisement. Errors: StaleAdvertisement, Unavailable.
func (x *Exchange) Observe(ctx context.Context, cluster string, m *market.Measured, fresh bool) error {
	return x.submit(ctx, &task{observe: func(s *market.State, now market.Time) error {
		before := s.Seller(cluster, now)
		err := s.Observe(cluster, m, now, fresh)
		x.observed(cluster, before, s.Seller(cluster, now))
		return err
	}})
}

// Recall stores advertisements from before this market started. They are shown, but nothing is reserved by
// them. A newer advertisement of the same cluster stays. Errors: Unavailable.
func (x *Exchange) Recall(ctx context.Context, all map[string]*market.Measured) error {
	return x.submit(ctx, &task{observe: func(s *market.State, now market.Time) error {
		for cluster, m := range all {
			_ = s.Observe(cluster, m, now, false) // an old one is ignored
		}
		return nil
	}})
}

// RecordTry stores the decision of the last try to serve a waiting request. Errors: Unavailable.
func (x *Exchange) RecordTry(ctx context.Context, id string, why *api.Decision) error {
	kept := market.Explain(why)
	return x.submit(ctx, &task{observe: func(s *market.State, _ market.Time) error {
		s.RecordTry(id, kept)
		return nil
	}})
}

// Read calls look with the durable state, between two batches. look must be quick. It may keep records and
// listings, which are immutable, and nothing else. Errors: Unavailable; ctx's.
func (x *Exchange) Read(ctx context.Context, look func(*market.State)) error {
	return x.submit(ctx, &task{read: look})
}

// Snapshot returns the whole market, encoded, and the head of its journal at that moment.
func (x *Exchange) Snapshot(ctx context.Context) (head journal.Head, state []byte, err error) {
	var encode func(io.Writer) error
	if err := x.Read(ctx, func(s *market.State) { head, encode = x.head, s.Snapshot() }); err != nil {
		return journal.Head{}, nil, err
	}
	var encoded bytes.Buffer
	err = encode(&encoded)
	return head, encoded.Bytes(), err
}

// Now returns the exchange's time.
func (x *Exchange) Now() market.Time { return market.Time(x.stats.now.Load()) }

func (x *Exchange) submit(ctx context.Context, o *task) error {
	o.answer = make(chan struct{})
	select {
	case x.tasks <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return stopped()
	}
	select {
	case <-o.answer:
		return o.err
	case <-ctx.Done():
		if o.read != nil && !o.claimed.CompareAndSwap(false, true) {
			<-o.answer // look is running, and may write to variables of the caller
			return o.err
		}
		return ctx.Err()
	case <-x.done:
		select {
		case <-o.answer:
			return o.err
		default:
			return stopped()
		}
	}
}

func stopped() error {
	return api.Errorf(api.CodeUnavailable, "the market is not running").Fix("try again")
}
