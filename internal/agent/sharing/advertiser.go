package sharing

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// debounce is how long a change waits for others to be advertised with it.
const debounce = 200 * time.Millisecond

// answersWithin is how long a broker is waited for, in the time of the others: a lease is several times that.
const answersWithin = 20 * time.Second

// Advertiser keeps the gate's books and the broker informed of what this cluster has:
// soon after each change, and otherwise every Interval as proof of life.
type Advertiser struct {
	Cluster   string
	Key       *clusterkey.Key
	Market    *exchange.Exchange
	Inventory *inventory.Inventory
	// Rotations lead from the keys that this cluster had to Key, for the card.
	Rotations []string
	// Endorsement is a root's word on the cluster's key, for the card. May be empty.
	Endorsement string
	// Liqo puts into the card which Liqo the cluster has, how peers reach it, and what network they may have. Nil: it has none.
	Liqo func(*api.Properties, *api.Sharing)
	// Connector is the URL at which others reach this cluster's connector, for the card. May be empty.
	Connector string
	// Brokers are those to be told: that one is away does not keep the others from hearing.
	Brokers func() []transport.Broker
	Log     *slog.Logger
	// Sharing is the SharingPolicy's spec, nil without one. Changed tells that it changed.
	Sharing func() *api.Sharing
	Changed <-chan struct{}
	// Interval is aligned to the clock, with a phase of this cluster's own, so that
	// clusters do not advertise all at once.
	Interval time.Duration
	// Show is told of each advertisement, and of why the broker did not take it.
	Show func(context.Context, api.AdvertisementStatus, error)

	mu       sync.Mutex
	sequence api.Sequence
	card     api.Card
}

// Begin puts a first measurement into the gate's books, so that the gate can answer. It comes before Run.
func (a *Advertiser) Begin(ctx context.Context) error {
	a.incarnate(time.Now().UnixMilli())
	_, err := a.measure(ctx)
	return err
}

// incarnate starts a new incarnation, if it is later than the one that is.
func (a *Advertiser) incarnate(incarnation int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if incarnation > a.sequence.Incarnation {
		a.sequence = api.Sequence{Incarnation: incarnation}
	}
}

// Run advertises until ctx ends.
func (a *Advertiser) Run(ctx context.Context) error {
	books := make(chan struct{}, 1)
	go a.followBooks(ctx, books)
	retry := time.Duration(0)
	for {
		if err := a.advertise(ctx); err != nil && ctx.Err() == nil {
			retry = min(max(2*retry, time.Second), a.Interval)
			a.Log.Warn("the broker did not take the advertisement", "error", err, "again in", retry)
		} else {
			retry = 0
		}
		wait := untilNext(time.Now(), a.Interval, a.Cluster)
		if retry > 0 {
			wait = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			continue
		case <-a.Inventory.Changed():
		case <-a.Changed:
		case <-books:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(debounce):
		}
	}
}

// followBooks tells of each change of the gate's books, until ctx or the market ends.
func (a *Advertiser) followBooks(ctx context.Context, books chan<- struct{}) {
	for {
		watch, err := a.Market.Watch(ctx, a.Cluster, "", 0)
		if err != nil {
			return
		}
		for err == nil {
			if _, _, err = watch.Next(ctx); err == nil {
				select {
				case books <- struct{}{}:
				default:
				}
			}
		}
		watch.Close()
	}
}

// untilNext is how long until the cluster's next turn: multiples of the interval on the
// clock, shifted by a phase that follows from its name.
func untilNext(now time.Time, interval time.Duration, cluster string) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cluster))
	phase := time.Duration(h.Sum64() % uint64(interval))
	return interval - (time.Duration(now.UnixNano())-phase)%interval
}

// advertise measures once, and tells the gate, the broker and whoever looks.
func (a *Advertiser) advertise(ctx context.Context) error {
	m, err := a.measure(ctx)
	if err != nil {
		return err
	}
	err = a.publish(ctx, m)
	a.Show(ctx, a.status(), err)
	return err
}

func (a *Advertiser) publish(ctx context.Context, m api.Measurement) error {
	card, err := a.signedCard(ctx)
	if err != nil {
		return err
	}
	all := a.Brokers()
	errs := make([]error, len(all))
	var told sync.WaitGroup
	for i, b := range all {
		told.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, answersWithin)
			defer cancel()
			errs[i] = a.tell(ctx, b, card, m)
		})
	}
	told.Wait()
	return cmp.Or(errs...)
}

func (a *Advertiser) tell(ctx context.Context, b transport.Broker, card string, m api.Measurement) error {
	if card != "" {
		if err := b.PutCard(ctx, card); err != nil && api.CodeOf(err) != api.CodeConflict {
			return err
		}
	}
	err := b.Advertise(ctx, m)
	if api.CodeOf(err) == api.CodeStaleAdvertisement {
		a.overtake(ctx, b)
	}
	return err
}

// overtake begins an incarnation later than the one that a broker has, of an agent that started while this
// cluster's clock was ahead. Without it nothing would be believed until the clock is there again.
func (a *Advertiser) overtake(ctx context.Context, b transport.Broker) {
	own, err := b.Cluster(ctx, a.Cluster)
	if theirs := own.Payload.Sequence.Incarnation; err == nil && theirs < farOff {
		a.incarnate(theirs + 1)
	}
}

// farOff bounds which incarnation of ours we believe a broker to have seen.
const farOff = 1 << 53

// Fresh measures now, for a refusal; nil if that fails.
func (a *Advertiser) Fresh(ctx context.Context) *api.Measurement {
	m, err := a.measure(ctx)
	if err != nil {
		return nil
	}
	return &m
}

// measure takes a measurement and puts it into the gate's books.
func (a *Advertiser) measure(ctx context.Context) (api.Measurement, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sequence.Number++
	m := api.Measurement{Sequence: a.sequence}
	var pools []api.PoolPolicy
	sharing := a.Sharing()
	if sharing != nil {
		terms := sharing.Terms
		if terms.Trust != api.TrustLegacy { // of the others nobody decides: it is this cluster's own business
			terms.Trust = ""
		}
		m.Terms, pools = &terms, sharing.Pools
	}
	measured := a.Inventory.Measure(pools)
	m.Pools = measured.Pools
	if err := a.commitments(ctx, &m); err != nil {
		return m, err
	}
	a.card = api.Card{Cluster: a.Cluster, Key: a.Key.Public().String(), Properties: measured.Properties, Endorsement: a.Endorsement, Rotations: a.Rotations}
	if sharing != nil {
		a.card.Properties.Labels, a.card.ApproveWithin = sharing.Labels, sharing.ApproveWithin
	}
	a.card.Properties.Connector = a.Connector
	if a.Liqo != nil {
		a.Liqo(&a.card.Properties, sharing)
	}
	internal, err := market.Measure(m)
	if err != nil {
		return m, err
	}
	return m, a.Market.Observe(ctx, a.Cluster, internal, true)
}

// commitments puts what the gate has accepted into the measurement.
func (a *Advertiser) commitments(ctx context.Context, m *api.Measurement) error {
	return a.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(a.Cluster, 0) {
			if r.Provider != a.Cluster || !r.State.Counts() {
				continue
			}
			pool := m.Pools[r.Pool]
			if pool.Accounts == nil {
				pool.Accounts = map[string]api.AccountUse{}
			}
			account := pool.Accounts[r.Consumer]
			if account.Commitments == nil {
				account.Commitments = map[string]api.Resources{}
			}
			account.Commitments[r.ID] = r.Takes().Resources()
			if r.Offer != nil {
				if account.Sold == nil {
					account.Sold = map[string]api.SoldUnits{}
				}
				account.Sold[r.ID] = api.SoldUnits{Offer: r.Offer.Signed.Name, Plan: r.Sale.Plan, Units: r.Units()}
			}
			pool.Accounts[r.Consumer] = account
			if m.Pools == nil {
				m.Pools = map[string]api.Pool{}
			}
			m.Pools[r.Pool] = pool
		}
	})
}

// status is the advertisement as Kubernetes shows it.
func (a *Advertiser) status() api.AdvertisementStatus {
	a.mu.Lock()
	status := api.AdvertisementStatus{Cluster: a.Cluster, Properties: a.card.Properties, Pools: map[string]api.Amounts{}}
	a.mu.Unlock()
	l := a.Market.View().Listing(a.Cluster)
	if l == nil || l.Measured == nil {
		return status
	}
	for _, p := range l.Pools {
		m := l.Measured.Pools[p.Name]
		status.Pools[p.Name] = api.Amounts{
			Capacity: m.Capacity.Resources(), Allocatable: m.Allocatable.Resources(), Allocated: m.Allocated.Resources(),
			Shared: m.Shared.Resources(), Reserved: p.Reserved.Resources(), Available: p.Available.Resources(), Shapes: market.ShapesOf(m.Shapes),
		}
	}
	return status
}
