package exchange

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/internal/market"
)

// maxBehind is how many changed reservations may wait for one reader.
const maxBehind = 4096

// ErrBehind ends the watch of a reader that is too slow. The reader resumes from its last token.
var ErrBehind = errors.New("the reader is too slow for this watch")

// ErrClosed ends a watch because the exchange stopped or the member may no longer watch.
var ErrClosed = errors.New("the watch was closed")

// ErrGivesWay ends a watch because the same member opened a newer one than it may have beside it.
var ErrGivesWay = errors.New("the watch gives way to a newer one of the same member")

// Watch receives the changes of one cluster's reservations. If a reservation changes several times
// between two calls of Next, the reader gets the newest record only.
type Watch struct {
	// Lineage and Revision say where the snapshot was taken.
	Lineage  string
	Revision uint64
	// Snapshot is the cluster's reservations at Revision that changed after the requested revision, oldest
	// change first.
	Snapshot []*market.Reservation

	exchange *Exchange
	cluster  string
	wake     chan struct{}
	mu       sync.Mutex
	pending  map[string]*market.Reservation
	parties  map[string]struct{} // other parties to report by ChangedParties
	chosen   *market.Enabled     // the providers that the cluster chose
	revision uint64
	woken    bool
	err      error
	// endCut ends cut: see Cut.
	cut    context.Context
	endCut context.CancelFunc
	// follows says that the watch includes the catalog, read is its cursor. restart says that the
	// reader must list everything again.
	follows, restart bool
	read             uint64
}

// Follow calls handle with all reservations of a cluster, and again with those that change, until ctx or the
// exchange ends. A reader that falls behind gets all again.
func (x *Exchange) Follow(ctx context.Context, cluster string, handle func([]*market.Reservation)) {
	for {
		w, err := x.Watch(ctx, cluster, "", 0)
		if err != nil {
			return
		}
		for changed := w.Snapshot; err == nil; changed, _, err = w.Next(ctx) {
			handle(changed)
		}
		w.Close()
	}
}

// Watch opens a watch of the reservations of a cluster that changed after a revision of a lineage.
// If the lineage or the revision is unknown, the snapshot has all. The caller must close the watch.
// Errors: Unavailable.
func (x *Exchange) Watch(ctx context.Context, cluster string, lineage string, after uint64) (*Watch, error) {
	w := &Watch{
		exchange: x, cluster: cluster, wake: make(chan struct{}, 1),
		pending: map[string]*market.Reservation{}, parties: map[string]struct{}{},
	}
	w.cut, w.endCut = context.WithCancel(context.Background())
	err := x.Read(ctx, func(s *market.State) {
		if lineage != x.head.Lineage || after > s.Revision {
			after = 0
		}
		w.Lineage, w.Revision, w.revision = x.head.Lineage, s.Revision, s.Revision
		w.Snapshot = s.Of(cluster, 0)
		if m := s.Member(cluster); m != nil {
			w.chosen = m.Enabled
		}
		for _, r := range w.Snapshot {
			w.addParties(r.Parties()...)
		}
		w.Snapshot = slices.DeleteFunc(w.Snapshot, func(r *market.Reservation) bool { return r.Revision <= after })
		if x.subscribers[cluster] == nil {
			x.subscribers[cluster] = map[*Watch]struct{}{}
		}
		x.subscribers[cluster][w] = struct{}{}
	})
	return w, err
}

// Wake makes Next return, with or without changes.
func (w *Watch) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	w.signal()
}

// wakeIfChosen makes Next return if the cluster chose other providers. Only the owner calls it.
func (w *Watch) wakeIfChosen(m *market.Member) {
	if w.chosen != m.Enabled {
		w.chosen = m.Enabled
		w.Wake()
	}
}

// ChangedParties returns the other parties of the cluster's reservations: at first all of them, then those
// whose member record or reservation changed since the last call. Next returns for these, too.
func (w *Watch) ChangedParties() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Sorted(maps.Keys(w.parties))
	clear(w.parties)
	return out
}

func (w *Watch) addParties(parties ...string) {
	for _, party := range parties {
		if party != w.cluster {
			w.parties[party] = struct{}{}
		}
	}
}

// Next waits for changes. It returns them, oldest first, and the revision up to which the reader
// then knows all. Errors: ErrBehind, ErrClosed, ErrGivesWay, ctx's.
func (w *Watch) Next(ctx context.Context) ([]*market.Reservation, uint64, error) {
	for {
		w.mu.Lock()
		if len(w.pending) > 0 || w.woken || w.err != nil {
			defer w.mu.Unlock()
			w.woken = false
			if w.err != nil {
				return nil, 0, w.err
			}
			out := byRevision(w.pending)
			clear(w.pending)
			return out, w.revision, nil
		}
		w.mu.Unlock()
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func byRevision(m map[string]*market.Reservation) []*market.Reservation {
	return slices.SortedFunc(maps.Values(m), func(a, b *market.Reservation) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
}

// Cut returns a context that ends when the watch gives way or its member may no longer watch. What is being
// sent to the reader may then be cut off.
func (w *Watch) Cut() context.Context { return w.cut }

// GiveWay ends the watch with ErrGivesWay, and Cut. The caller must still close it.
func (w *Watch) GiveWay() { w.endNow(ErrGivesWay) }

// endNow ends the watch and cuts off what is being sent.
func (w *Watch) endNow(err error) {
	w.end(err)
	w.endCut()
}

// Close ends the watch. It waits for nothing.
func (w *Watch) Close() {
	w.end(ErrClosed)
	go func() { // the owner may be busy, or gone
		_ = w.exchange.Read(context.Background(), func(*market.State) { w.exchange.unsubscribe(w) })
	}()
}

func (x *Exchange) unsubscribe(w *Watch) {
	delete(x.followers, w)
	delete(x.subscribers[w.cluster], w)
	if len(x.subscribers[w.cluster]) == 0 {
		delete(x.subscribers, w.cluster)
	}
}

// CloseWatches ends the watches of a cluster that may no longer trade, and cuts off what is being sent.
func (x *Exchange) CloseWatches(ctx context.Context, cluster string) {
	_ = x.Read(context.WithoutCancel(ctx), func(*market.State) {
		for w := range x.subscribers[cluster] {
			w.endNow(ErrClosed)
		}
	})
}

func (x *Exchange) closeWatches() {
	for _, watches := range x.subscribers {
		for w := range watches {
			w.end(ErrClosed)
		}
	}
}

func (w *Watch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.signal()
}

func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watch) push(r *market.Reservation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if w.pending[r.ID] = r; len(w.pending) > maxBehind {
		w.pending, w.err = nil, ErrBehind
	}
	w.addParties(r.Parties()...)
	w.revision = r.Revision // records come in order: all before this one are in pending or were read
	w.signal()
}

// notify sends the records that a durable batch changed to the watches of both parties.
func (x *Exchange) notify(events []market.Event) {
	for _, e := range events {
		if e.Member != nil && x.state.Self == "" { // an agent's member records are its own
			x.notifyPartners(e.Member.Cluster)
			for w := range x.subscribers[e.Member.Cluster] {
				w.wakeIfChosen(e.Member)
			}
		}
		if e.Reservation == nil {
			continue
		}
		r := e.Reservation.Reservation
		for _, party := range r.Parties() {
			for w := range x.subscribers[party] {
				w.push(r)
			}
		}
	}
}

// notifyPartners tells the clusters that have live reservations with a cluster that its member
// record changed.
func (x *Exchange) notifyPartners(cluster string) {
	notified := map[string]struct{}{cluster: {}}
	for _, r := range x.state.Live(cluster) {
		for _, party := range []string{r.Consumer, r.Provider} {
			if _, twice := notified[party]; twice || !r.Concerns(party) {
				continue
			}
			notified[party] = struct{}{}
			for w := range x.subscribers[party] {
				w.mu.Lock()
				w.addParties(cluster)
				w.mu.Unlock()
				w.Wake()
			}
		}
	}
}

// notifyAll sends all records to each watch of a journal that was loaded again, and ends those of another lineage.
func (x *Exchange) notifyAll() {
	for cluster, watches := range x.subscribers {
		all := x.state.Of(cluster, 0)
		for w := range watches {
			if w.Lineage != x.head.Lineage {
				w.end(ErrBehind)
			}
			w.restartCatalog()
			for _, r := range all {
				w.push(r)
			}
		}
	}
}

// EndWatches ends all watches. Their readers connect again.
func (x *Exchange) EndWatches() {
	_ = x.Read(context.Background(), func(*market.State) { x.closeWatches() })
}
