package exchange

import (
	"context"
	"sync/atomic"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// order is something to be done by the owner: a command, or a look at the state.
type order struct {
	command market.Command
	observe func(s *market.State, now market.Time) error // soft state, before the commit
	read    func(s *market.State)                        // what is durable
	outcome market.Outcome
	err     error
	answer  chan struct{}
	claimed atomic.Bool // of a read: by the owner that runs it, or by the caller that went away
}

// writes says whether it is one that a commit may follow.
func (o *order) writes() bool { return o.command != nil }

// done answers an order, once what it is answered with is durable.
func (o *order) done(s *market.State) {
	if o.read != nil && o.claimed.CompareAndSwap(false, true) {
		o.read(s)
	}
	close(o.answer)
}

// Do decides a command and makes it durable. Errors: the command's own; Unavailable
// when the exchange stops or the journal's answer was lost: repeat the command.
func (x *Exchange) Do(ctx context.Context, c market.Command) (market.Outcome, error) {
	market.Prepare(c)
	o := &order{command: c}
	if err := x.give(ctx, o); err != nil {
		return market.Outcome{}, err
	}
	return o.outcome, nil
}

// Observe takes in an advertisement. Errors: StaleAdvertisement, Unavailable.
func (x *Exchange) Observe(ctx context.Context, cluster string, m *market.Measured, fresh bool) error {
	return x.give(ctx, &order{observe: func(s *market.State, now market.Time) error {
		before := s.Seller(cluster, now)
		err := s.Observe(cluster, m, now, fresh)
		x.observed(cluster, before, s.Seller(cluster, now))
		return err
	}})
}

// Recall takes in what clusters advertised before this market started, of those that have not advertised since: it is shown, and
// not sold from. Errors: Unavailable.
func (x *Exchange) Recall(ctx context.Context, all map[string]*market.Measured) error {
	return x.give(ctx, &order{observe: func(s *market.State, now market.Time) error {
		for cluster, m := range all {
			_ = s.Observe(cluster, m, now, false) // one that is no newer than what is known says nothing
		}
		return nil
	}})
}

// Try remembers why a request that waits could not be served when it was last tried. Errors: Unavailable.
func (x *Exchange) Try(ctx context.Context, id string, why *api.Decision) error {
	kept := market.Explain(why)
	return x.give(ctx, &order{observe: func(s *market.State, _ market.Time) error {
		s.Try(id, kept)
		return nil
	}})
}

// Read looks at the state, between two batches: what it sees is durable. look must be
// quick and must not keep what it got, but for records and listings, which are immutable.
func (x *Exchange) Read(ctx context.Context, look func(*market.State)) error {
	return x.give(ctx, &order{read: look})
}

// Snapshot returns the whole market as it is between two batches, and where its journal stands then.
func (x *Exchange) Snapshot(ctx context.Context) (at journal.Head, state []byte, err error) {
	var encode func() ([]byte, error)
	if err := x.Read(ctx, func(s *market.State) { at, encode = x.head, s.Snapshot() }); err != nil {
		return journal.Head{}, nil, err
	}
	state, err = encode()
	return at, state, err
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
		return stopped()
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
			return stopped()
		}
	}
}

func stopped() error {
	return api.Errorf(api.CodeUnavailable, "the market is not running").Fix("try again")
}
