package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/consumer"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/provider"
	"github.com/bourse-dev/bourse/internal/transport"
)

// feed is one broker that this cluster deals with, and what it says: the one that it joined, or the connector of a cluster, which is
// a broker for that cluster alone. The two halves of the agent are the same towards each; what they remember is in the one Ledger.
type feed struct {
	// via is empty for the broker that was joined, and else the cluster whose connector it is.
	via      string
	broker   transport.Broker
	gate     *provider.Gate
	borrower *consumer.Borrower
	link     *link
	// greet shows it this cluster's card, before it is watched. Nil: that is done elsewhere.
	greet func(context.Context) error

	mu    sync.Mutex
	says  map[string]*transport.Reservation // by ID
	whole bool                              // it has said all since it was last connected
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
	f.mu.Lock()
	defer f.mu.Unlock()
	return ours != nil && f.whole && f.says[ours.ID] == nil && ours.Acceptance != "" && ours.Assignment != "" &&
		(ours.Bound() || ours.State == api.Releasing) && (ours.Via == f.via || ours.Via == "" && f.via == ours.Provider && ours.Provider != f.gate.Cluster)
}

// show shows it what both have signed.
func (f *feed) show(ctx context.Context, ours *market.Reservation) error {
	agreement := api.Agreement{Assignment: ours.Assignment, Acceptance: ours.Acceptance}
	if ours.Offer != nil {
		agreement.Offer = ours.Offer.Document
	}
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

// relay is the broker that was joined, and for what concerns one reservation or one peer whichever knows it.
type relay struct {
	transport.Broker
	feeds *feeds
}

// Reservation reads it where it is known.
func (r relay) Reservation(ctx context.Context, id string) (transport.Reservation, error) {
	for _, f := range r.feeds.open() {
		if f.via != "" && f.said(id) != nil {
			return f.broker.Reservation(ctx, id)
		}
	}
	return r.Broker.Reservation(ctx, id)
}

// Progress tells all who know it.
func (r relay) Progress(ctx context.Context, id string, state api.State) (out transport.Reservation, err error) {
	told := false
	for _, f := range r.feeds.open() {
		if f.said(id) != nil {
			told = true
			if out, err = f.broker.Progress(ctx, id, state); err != nil {
				return out, err
			}
		}
	}
	if told {
		return out, nil
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

// stalls are where this cluster sells: its own connector, if it has one, and the broker that it joined. What is said to one is
// said to all, its own first: that does not wait for anybody.
type stalls struct {
	transport.Broker
	own transport.Broker // nil: none
}

// all are those places.
func (s stalls) all() []transport.Broker {
	if s.own == nil {
		return []transport.Broker{s.Broker}
	}
	return []transport.Broker{s.own, s.Broker}
}

func (s stalls) each(tell func(transport.Broker) error) (failed error) {
	for _, b := range s.all() {
		failed = cmp.Or(failed, tell(b))
	}
	return failed
}

// Publish implements transport.Broker.
func (s stalls) Publish(ctx context.Context, name, signed string) error {
	return s.each(func(b transport.Broker) error { return b.Publish(ctx, name, signed) })
}

// Withdraw implements transport.Broker.
func (s stalls) Withdraw(ctx context.Context, name string) error {
	return s.each(func(b transport.Broker) error { return b.Withdraw(ctx, name) })
}

// Catalog is what either shows.
func (s stalls) Catalog(ctx context.Context, q api.CatalogQuery) (all []api.Envelope[api.Listing], err error) {
	err = s.each(func(b transport.Broker) error {
		found, err := b.Catalog(ctx, q)
		all = append(all, found...)
		return err
	})
	return all, err
}
