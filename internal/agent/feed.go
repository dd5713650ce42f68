package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/consumer"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/provider"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// feed is one broker that this cluster deals with, and what it says: one that it joined, or the connector of a cluster, which is
// a broker for that cluster alone. The two halves of the agent are the same towards each; what they remember is in the one Ledger.
type feed struct {
	// via is empty for the main broker, "broker/NAME" for another that was joined, and else the cluster whose connector it is.
	via string
	// off says that people disabled it. Nil: nobody can.
	off      *valve
	broker   transport.Broker
	gate     *provider.Gate
	borrower *consumer.Borrower
	link     *link
	// greet shows it this cluster's card, before it is watched. Nil: that is done elsewhere.
	greet func(context.Context) error
	// woken tells that it is to be watched at once. Nil: nobody does.
	woken chan struct{}

	mu    sync.Mutex
	says  map[string]*transport.Reservation // by ID
	whole bool                              // it has said all since it was last connected
}

// wake has it watched at once, where that waits after an error.
func (f *feed) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// enable lets it be dealt with, or not.
func (f *feed) enable(is bool) {
	if f.off.set(is) {
		f.wake()
	}
}

// name is that of a broker that was joined.
func (f *feed) name() string { return brokerName(f.via) }

func brokerName(via string) string {
	return cmp.Or(strings.TrimPrefix(via, brokerVia), api.MainBroker)
}

// connected says that its watch is open.
func (f *feed) connected() bool {
	is, _ := f.link.state()
	return is && !f.off.closed()
}

// said is what it says of a reservation, nil if nothing.
func (f *feed) said(id string) *transport.Reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.says[id]
}

func (f *feed) hear(r *transport.Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says[r.ID] = r
}

// forget drops what it said of a reservation that is over on both sides.
func (f *feed) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.says, id)
}

// began notes that a watch began; complete says whether all that it does not tell of is not there.
func (f *feed) began(complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.whole = f.whole && !complete; complete {
		clear(f.says)
	}
}

// lost notes that the watch broke: what it does not tell of may be there.
func (f *feed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = false
}

// ended notes that what a watch begins with was said.
func (f *feed) ended() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, f.whole = !f.whole, true
	return first
}

// misses says whether it ought to know a reservation that it does not: both have signed it, and it was made there, or is of the
// connector that is asked in the broker's place.
func (f *feed) misses(ours *market.Reservation) bool {
	return ours != nil && f.lacks(ours.ID) && ours.Acceptance != "" && ours.Assignment != "" &&
		(ours.Bound() || ours.State == api.Releasing) && (ours.Via == f.via || isBroker(ours.Via) && f.via == ours.Provider && ours.Provider != f.gate.Cluster)
}

// forgot says whether it knows nothing of a reservation that was made there.
func (f *feed) forgot(ours *market.Reservation) bool { return f.lacks(ours.ID) && ours.Via == f.via }

// lacks says whether a reservation is not in all that it has said.
func (f *feed) lacks(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole && f.says[id] == nil
}

// show shows it what both have signed.
func (f *feed) show(ctx context.Context, ours *market.Reservation) error {
	agreement := api.Agreement{Assignment: ours.Assignment, Acceptance: ours.Acceptance}
	if ours.Offer != nil {
		agreement.Offer = ours.Offer.Document
	}
	own := agreement.Assignment
	if ours.Provider == f.gate.Cluster {
		own = agreement.Acceptance
	}
	vouch, err := trust.Vouch(f.gate.Key, f.gate.Cluster, ours.ID, agreement.Assignment, own)
	if err != nil {
		return err
	}
	agreement.Vouch = vouch
	theirs, err := f.broker.Adopt(ctx, ours.ID, agreement)
	if err == nil {
		f.hear(&theirs)
	}
	return err
}

// feeds are those that are open.
type feeds struct {
	mu  sync.Mutex
	all []*feed
}

func (f *feeds) open() []*feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// forgot says whether the one where a reservation was made knows nothing of it.
func (f *feeds) forgot(ours *market.Reservation) bool {
	return slices.ContainsFunc(f.open(), func(one *feed) bool { return one.forgot(ours) })
}

// brokers are those that were joined and are enabled, in the order in which they are asked.
func (f *feeds) brokers() (out []*feed) {
	for _, one := range f.open() {
		if isBroker(one.via) && !one.off.closed() {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b *feed) int { return strings.Compare(a.via, b.via) })
	return out
}

// broker is the one that is asked first: the first that is reached, or else the first, which may be nil.
func (f *feeds) broker() (first *feed) {
	for _, one := range f.brokers() {
		if !one.link.away(0) {
			return one
		}
		first = cmp.Or(first, one)
	}
	return first
}

// away says that no broker is reached, for so long.
func (f *feeds) away(long time.Duration) bool {
	return !slices.ContainsFunc(f.brokers(), func(one *feed) bool { return !one.link.away(long) })
}

// brokerVia is the via of a broker that was joined besides the main one; no cluster is named like it.
const brokerVia = "broker/"

func isBroker(via string) bool { return via == "" || strings.HasPrefix(via, brokerVia) }

func (f *feeds) add(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, one)
}

func (f *feeds) remove(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(x *feed) bool { return x == one })
}

// named is the broker of a name, nil if there is none.
func (f *feeds) named(name string) *feed {
	for _, one := range f.open() {
		if isBroker(one.via) && one.name() == name {
			return one
		}
	}
	return nil
}

// lost says that a broker by which something was made is not dealt with, or not reached for so long.
func (f *feeds) lost(via string, long time.Duration) bool {
	return !slices.ContainsFunc(f.brokers(), func(one *feed) bool { return one.via == via && !one.link.away(long) })
}

// relay is the brokers that were joined, as one: what concerns one reservation or one peer goes to whichever knows it, and what is
// asked of a broker to the first.
type relay struct {
	transport.Broker // the main one
	feeds            *feeds
}

func (r relay) first() transport.Broker {
	if f := r.feeds.broker(); f != nil {
		return f.broker
	}
	return r.Broker
}

// Clusters reads those that the first shows.
func (r relay) Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error) {
	return r.first().Clusters(ctx)
}

// Cluster reads one where it is shown.
func (r relay) Cluster(ctx context.Context, id string) (found api.Envelope[api.Cluster], err error) {
	for _, f := range r.feeds.brokers() {
		if found, err = f.broker.Cluster(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Cluster(ctx, id)
}

// Evaluate asks the first.
func (r relay) Evaluate(ctx context.Context, q api.Request) (api.Evaluation, error) {
	return r.first().Evaluate(ctx, q)
}

// Reservations reads them all, each once. That one broker is away hides none of another's.
func (r relay) Reservations(ctx context.Context) (all []transport.Reservation, failed error) {
	known, answered := map[string]bool{}, false
	for _, f := range r.feeds.brokers() {
		found, err := f.broker.Reservations(ctx)
		failed, answered = cmp.Or(failed, err), answered || err == nil
		for _, one := range found {
			if !known[one.ID] {
				known[one.ID] = true
				all = append(all, one)
			}
		}
	}
	if !answered && failed == nil {
		return r.Broker.Reservations(ctx)
	}
	if answered {
		return all, nil
	}
	return nil, failed
}

// Reservation reads it where it is known.
func (r relay) Reservation(ctx context.Context, id string) (found transport.Reservation, err error) {
	for _, f := range r.feeds.open() {
		if f.said(id) != nil {
			return f.broker.Reservation(ctx, id)
		}
	}
	for _, f := range r.feeds.brokers() { // it may be over, and no broker speaks of it by itself
		if found, err = f.broker.Reservation(ctx, id); err == nil {
			return found, nil
		}
	}
	return r.first().Reservation(ctx, id)
}

// Progress tells who knows it, in their order, until one takes it; the others hear it when what they say of it comes here.
// Errors: that of the first.
func (r relay) Progress(ctx context.Context, id string, state api.State) (transport.Reservation, error) {
	var failed error
	for _, f := range r.feeds.open() {
		if f.said(id) == nil {
			continue
		}
		out, err := f.broker.Progress(ctx, id, state)
		if err == nil {
			return out, nil
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return transport.Reservation{}, failed
	}
	return r.Broker.Progress(ctx, id, state)
}

// Say takes every way at once, because nobody here knows at which of them the other listens now: one that takes it is enough, and
// one that does not answer holds up no other. Errors: that of the first way.
func (r relay) Say(ctx context.Context, cluster, document string) error {
	all := r.feeds.open()
	if len(all) == 1 {
		return all[0].broker.Say(ctx, cluster, document)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sayAgain)
	said, wait := make(chan error, len(all)), sync.WaitGroup{}
	failed := make([]error, len(all))
	for i, f := range all {
		wait.Go(func() {
			failed[i] = f.broker.Say(ctx, cluster, document)
			if failed[i] == nil {
				said <- nil
			}
		})
	}
	go func() {
		defer cancel()
		wait.Wait()
		said <- failed[0]
	}()
	return <-said
}

// stalls are where this cluster sells: its own connector, if it has one, and the brokers that it joined. What is said to one is
// said to all: none waits for another.
type stalls struct {
	transport.Broker
	feeds *feeds
	own   transport.Broker // nil: none
}

// all are those places, its own first.
func (s stalls) all() (out []transport.Broker) {
	if s.own != nil {
		out = append(out, s.own)
	}
	for _, f := range s.feeds.brokers() {
		out = append(out, f.broker)
	}
	return out
}

func (s stalls) each(tell func(transport.Broker) error) error {
	all := s.all()
	failed := make([]error, len(all))
	var told sync.WaitGroup
	for i, b := range all {
		told.Go(func() { failed[i] = tell(b) })
	}
	told.Wait()
	return cmp.Or(failed...)
}

// Publish implements transport.Broker.
func (s stalls) Publish(ctx context.Context, name, signed string) error {
	return s.each(func(b transport.Broker) error { return b.Publish(ctx, name, signed) })
}

// Withdraw implements transport.Broker.
func (s stalls) Withdraw(ctx context.Context, name string) error {
	return s.each(func(b transport.Broker) error { return b.Withdraw(ctx, name) })
}

// Catalog is what any of them shows, and the error of one that does not answer.
func (s stalls) Catalog(ctx context.Context, q api.CatalogQuery) (all []listing, err error) {
	var mu sync.Mutex
	err = s.each(func(b transport.Broker) error {
		found, err := b.Catalog(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	})
	return all, err
}
