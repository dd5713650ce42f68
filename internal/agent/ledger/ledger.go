// Package ledger opens the Ledger: the object in which an agent keeps what it must not forget, and the
// market over it.
//
// Start at [Open]. [Ledger.Run] runs the market. It also detects that the cluster's etcd was restored to an
// older state while the agent runs, and then ends with an error: the agent starts again.
package ledger

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/kube"
)

// ObjectName is the name of the Ledger.
const ObjectName = "ledger"

const (
	// foldEvery is after how many events the Ledger is folded. Each batch writes all of it, three times on
	// the way to a peering. Each 10 KB more made each of these steps some 2 ms longer on two busy cores.
	foldEvery = 32
	// appendBytes is about how many bytes of events go into one append, so that each fits into one part.
	appendBytes = 256 << 10
	// recordBytes is how many bytes the events of one command may take. So each append fits into one part, with
	// the events of other commands and of a tick.
	recordBytes = 512 << 10
)

// MarketOptions returns how an agent runs the market that is in its Ledger.
func MarketOptions(cluster string) exchange.Options {
	return exchange.Options{Self: cluster, Resume: true, SnapshotEvery: foldEvery, AppendBytes: appendBytes,
		TaskBytes: recordBytes}
}

// Options say where the Ledger is.
type Options struct {
	Client client.Client
	// Reader reads from the API server, not from a cache.
	Reader             client.Reader
	Cluster, Namespace string
	// CheckEvery is how often Run looks whether the Ledger went back.
	CheckEvery time.Duration
	// MarketClock is the market's. Default: the machine's.
	MarketClock exchange.Clock
	// Clock is that of CheckEvery.
	Clock clock.WithTicker
	Log   *slog.Logger
}

// Ledger is an open one.
type Ledger struct {
	options  Options
	detector *rollbackDetector
	market   *exchange.Exchange
}

// Open loads the Ledger, and makes it where there is none. Errors: those of exchange.Open.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	l := &Ledger{options: o, detector: &rollbackDetector{Journal: kube.New(o.Client, o.key(), kube.Parts)}}
	options := MarketOptions(o.Cluster)
	options.Clock, options.Log = o.MarketClock, o.Log
	var err error
	l.market, err = exchange.Open(ctx, l.detector, options)
	return l, err
}

func (o *Options) key() client.ObjectKey {
	return client.ObjectKey{Namespace: o.Namespace, Name: ObjectName}
}

// Market returns the market over the Ledger.
func (l *Ledger) Market() *exchange.Exchange { return l.market }

// Run runs the market until ctx ends. Errors: a journal.RefusedError where the Ledger went back.
func (l *Ledger) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.market.Run(ctx) })
	group.Go(func() error {
		return l.detector.watch(ctx, l.options.Reader, l.options.key(), l.options.Clock.NewTicker(l.options.CheckEvery))
	})
	return group.Wait()
}
