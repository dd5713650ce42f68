package sharing

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

const (
	// gatherTime is how long a change waits for other changes, to be advertised with them.
	gatherTime = 200 * time.Millisecond
	// brokerTimeout bounds how long one broker holds up the next advertisement. A lease lasts
	// several times that.
	brokerTimeout = 20 * time.Second
	// maxIncarnation bounds which incarnation of ours we believe a broker to have seen.
	maxIncarnation = 1 << 53
)

// Options say what is advertised, and to whom.
type Options struct {
	Client client.Client
	// Object is where the Advertisement is.
	Object client.ObjectKey
	Card   CardOptions
	// Market holds the gate's books, in the Ledger.
	Market    *exchange.Exchange
	Inventory *inventory.Inventory
	Policy    *Policy
	// Outlets returns those to which the cluster advertises. One that does not answer holds up no other.
	Outlets  func() []transport.Outlet
	Schedule Schedule
	Clock    clock.Clock
	Log      *slog.Logger
}

// Schedule is when a cluster advertises without a change: at the multiples of the interval on the
// clock. They are shifted by a phase that follows from the cluster's name, so that clusters do not
// advertise all at once.
type Schedule struct {
	Interval time.Duration
	// Aligned leaves the phase out: all such clusters advertise together, as the prototype's agents did.
	Aligned bool
}

// Advertiser keeps the gate's books and the brokers informed of what this cluster has.
type Advertiser struct {
	options Options
	object  advertisement
	refused refusals

	mu       sync.Mutex
	sequence api.Sequence
	card     api.Card // unsigned, by the newest measurement
}

// New returns an Advertiser that has measured nothing yet: see Begin.
func New(o Options) *Advertiser {
	return &Advertiser{options: o, object: advertisement{client: o.Client, key: o.Object}}
}

// Begin puts a first measurement into the gate's books, so that the gate can answer. Call it before
// Run. Errors: those of the Ledger.
func (a *Advertiser) Begin(ctx context.Context) error {
	a.beginIncarnation(a.options.Clock.Now().UnixMilli())
	_, err := a.measure(ctx)
	return err
}

// Run advertises until ctx ends.
func (a *Advertiser) Run(ctx context.Context) error {
	books := make(chan struct{}, 1)
	go a.options.Market.Follow(ctx, a.options.Card.Cluster, func([]*market.Reservation) {
		select {
		case books <- struct{}{}:
		default:
		}
	})
	retry := time.Duration(0)
	for {
		if err := a.advertise(ctx); err != nil && ctx.Err() == nil {
			retry = min(max(2*retry, time.Second), a.options.Schedule.Interval)
			a.options.Log.Warn("the broker did not take the advertisement", "error", err, "again in", retry)
		} else {
			retry = 0
		}
		wait := a.options.Schedule.untilNext(a.options.Clock.Now(), a.options.Card.Cluster)
		if retry > 0 {
			wait = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.options.Clock.After(wait):
			continue
		case <-a.options.Inventory.Changed():
		case <-a.options.Policy.changed:
		case <-books:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.options.Clock.After(gatherTime):
		}
	}
}

// Fresh measures the cluster for a refusal at the outlet of a route. It returns nil if that fails.
func (a *Advertiser) Fresh(ctx context.Context, via string) *api.Measurement {
	m, err := a.measure(ctx)
	if err != nil {
		return nil
	}
	for _, o := range a.options.Outlets() {
		if o.Via == via {
			report := m.reportTo(&o)
			return &report
		}
	}
	return nil
}

// ShowHealth writes what the doctor found into the status of the Advertisement. Errors: those of
// the API server; one before the first advertisement.
func (a *Advertiser) ShowHealth(ctx context.Context, problems []api.Problem) error {
	return a.object.showHealth(ctx, problems)
}

// untilNext returns how long until the cluster advertises next.
func (s Schedule) untilNext(now time.Time, cluster string) time.Duration {
	var phase time.Duration
	if !s.Aligned {
		h := fnv.New64a()
		_, _ = h.Write([]byte(cluster))
		phase = time.Duration(h.Sum64() % uint64(s.Interval))
	}
	return s.Interval - (time.Duration(now.UnixNano())-phase)%s.Interval
}

// advertise measures the cluster once, and sends and shows the result.
func (a *Advertiser) advertise(ctx context.Context) error {
	m, err := a.measure(ctx)
	if err != nil {
		return err
	}
	refused := a.publish(ctx, m)
	if err := a.object.show(ctx, a.status(), refused); err != nil && ctx.Err() == nil {
		a.options.Log.Warn("the Advertisement was not written; the next one will be", "error", err)
	}
	return refused
}

// publish sends each broker its part of a measurement, with the card, to all at once. It returns the error of the
// first broker in their order that refused.
func (a *Advertiser) publish(ctx context.Context, m measured) error {
	card, err := a.signCard(ctx)
	if err != nil {
		return err
	}
	outlets := a.options.Outlets()
	err = transport.CallAll(outlets, func(o transport.Outlet) error {
		ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		return a.send(ctx, o, card, m.reportTo(&o))
	})
	names := make([]string, len(outlets))
	for i, o := range outlets {
		names[i] = session.BrokerName(o.Via)
	}
	a.options.Policy.setRefusals(a.refused.keepOnly(names))
	return err
}

// send sends a card and a measurement to one broker. A card that it refuses does not keep the measurement back: its
// terms hide what is hidden, and its amounts bound what is sold.
func (a *Advertiser) send(ctx context.Context, o transport.Outlet, card string, m api.Measurement) error {
	var ofCard error
	if card != "" {
		if err := o.PutCard(ctx, card); api.CodeOf(err) != api.CodeConflict {
			ofCard = err
		}
	}
	err := o.Advertise(ctx, m)
	if api.CodeOf(err) == api.CodeStaleAdvertisement {
		a.advanceIncarnation(ctx, o)
	}
	a.refused.note(o.Via, ofCard, err)
	return cmp.Or(ofCard, err)
}

// advanceIncarnation begins an incarnation later than the one that a broker knows. That one is of an agent
// that started while this cluster's clock was ahead: without a later one the broker would refuse all
// until the clock is there again.
func (a *Advertiser) advanceIncarnation(ctx context.Context, b transport.Broker) {
	own, err := b.Cluster(ctx, a.options.Card.Cluster)
	if incarnation := own.Payload.Sequence.Incarnation; err == nil && incarnation < maxIncarnation {
		a.beginIncarnation(incarnation + 1)
	}
}

// beginIncarnation begins an incarnation, if it is later than the present one.
func (a *Advertiser) beginIncarnation(incarnation int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if incarnation > a.sequence.Incarnation {
		a.sequence = api.Sequence{Incarnation: incarnation}
	}
}
