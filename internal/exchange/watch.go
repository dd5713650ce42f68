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

// maxBehind is how many changed reservations may wait for a reader.
const maxBehind = 4096

// ErrBehind ends the watch of a reader that is too slow: it resumes from its last token.
var ErrBehind = errors.New("the reader is too slow for this watch")

// ErrClosed ends a watch whose exchange stopped, or whose member may no longer watch.
var ErrClosed = errors.New("the watch was closed")

// ErrGivesWay ends a watch of a member that opened more of them than it may have.
var ErrGivesWay = errors.New("the watch gives way to a newer one of the same member")

// Watch tells what changes among the reservations of one cluster. Of a reservation
// that changed several times since it was last asked it tells the newest.
type Watch struct {
	// Lineage and Revision are where the snapshot was taken.
	Lineage  string
	Revision uint64
	// Snapshot is what concerned the cluster at Revision and had changed since the
	// revision asked for, oldest change first.
	Snapshot []*market.Reservation

	exchange *Exchange
	cluster  string
	wake     chan struct{}
	mu       sync.Mutex
	pending  map[string]*market.Reservation
	met      map[string]struct{} // other parties of whom there may be news
	revision uint64
	woken    bool
	err      error
	// cut ends, by endCut, when the reader has no claim to the rest of what is being sent to it.
	cut    context.Context
	endCut context.CancelFunc
	// follows says that it tells of the catalog; read is how far it has, anew that everything is to be told.
	follows, anew bool
	read          uint64
}

// Watch opens a watch of the reservations of a cluster that changed after a revision
// (0: all). Close it. Errors: Unavailable.
func (x *Exchange) Watch(ctx context.Context, cluster string, lineage string, after uint64) (*Watch, error) {
	w := &Watch{exchange: x, cluster: cluster, wake: make(chan struct{}, 1), pending: map[string]*market.Reservation{}, met: map[string]struct{}{}}
	w.cut, w.endCut = context.WithCancel(context.Background())
	err := x.Read(ctx, func(s *market.State) {
		if lineage != x.head.Lineage || after > s.Revision {
			after = 0
		}
		w.Lineage, w.Revision, w.revision = x.head.Lineage, s.Revision, s.Revision
		w.Snapshot = s.Of(cluster, 0)
		for _, r := range w.Snapshot {
			w.meet(r.Parties()...)
		}
		w.Snapshot = slices.DeleteFunc(w.Snapshot, func(r *market.Reservation) bool { return r.Revision <= after })
		if x.subscribers[cluster] == nil {
			x.subscribers[cluster] = map[*Watch]struct{}{}
		}
		x.subscribers[cluster][w] = struct{}{}
	})
	return w, err
}

// Wake makes Next return, with or without changes: there is something else to tell the reader.
func (w *Watch) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken = true
	w.signal()
}

// Met returns, once, the other parties of the cluster's reservations: first all, then those whose record, or a reservation
// with whom, changed. Next returns for these, too.
func (w *Watch) Met() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Sorted(maps.Keys(w.met))
	clear(w.met)
	return out
}

func (w *Watch) meet(parties ...string) {
	for _, party := range parties {
		if party != w.cluster {
			w.met[party] = struct{}{}
		}
	}
}

// Next waits for changes and returns them, oldest first, with the revision that they
// bring the reader to. Errors: ErrBehind, ErrClosed, ctx's.
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
	out := make([]*market.Reservation, 0, len(m))
	for _, r := range m {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *market.Reservation) int { return cmp.Compare(a.Revision, b.Revision) })
	return out
}

// Cut ends when the watch gives way or its member may no longer watch: the reader has no claim to the rest of what is being sent to it.
func (w *Watch) Cut() context.Context { return w.cut }

// GiveWay makes Next return ErrGivesWay, and cuts what is being sent. Close the watch as ever.
func (w *Watch) GiveWay() { w.endNow(ErrGivesWay) }

// endNow ends the watch and cuts what is being sent.
func (w *Watch) endNow(err error) {
	w.end(err)
	w.endCut()
}

// Close ends the watch.
func (w *Watch) Close() {
	w.end(ErrClosed)
	go func() { // the owner may be gone, or busy: nobody waits for it
		_ = w.exchange.Read(context.Background(), func(*market.State) { w.exchange.unsubscribe(w) })
	}()
}

func (x *Exchange) unsubscribe(w *Watch) {
	delete(x.shoppers, w)
	delete(x.subscribers[w.cluster], w)
	if len(x.subscribers[w.cluster]) == 0 {
		delete(x.subscribers, w.cluster)
	}
}

// CloseWatches ends the watches of a cluster, which may no longer trade, and cuts what is being sent to it.
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
	w.meet(r.Parties()...)
	w.revision = r.Revision // changes are pushed in order: everything before this one is in pending or was read
	w.signal()
}

// feed tells the watches of both parties what a durable batch changed.
func (x *Exchange) feed(events []market.Event) {
	for _, e := range events {
		if e.Member != nil && x.state.Self == "" { // what an agent knows of others is nobody else's news
			x.feedMember(e.Member.Cluster)
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

// feedMember tells those that its record changed who have, with the cluster, what is not over.
func (x *Exchange) feedMember(cluster string) {
	told := map[string]struct{}{cluster: {}}
	for _, r := range x.state.Live(cluster) {
		for _, party := range []string{r.Consumer, r.Provider} {
			if _, twice := told[party]; twice || !r.Concerns(party) {
				continue
			}
			told[party] = struct{}{}
			for w := range x.subscribers[party] {
				w.mu.Lock()
				w.meet(cluster)
				w.mu.Unlock()
				w.Wake()
			}
		}
	}
}

// feedAll tells every watch everything, after the state was loaded again. The tokens of
// another lineage are worth nothing: its readers begin anew.
func (x *Exchange) feedAll() {
	for cluster, watches := range x.subscribers {
		all := x.state.Of(cluster, 0)
		for w := range watches {
			if w.Lineage != x.head.Lineage {
				w.end(ErrBehind)
			}
			w.beginAnew()
			for _, r := range all {
				w.push(r)
			}
		}
	}
}

// EndWatches ends all watches: their readers come back to whoever serves next.
func (x *Exchange) EndWatches() {
	_ = x.Read(context.Background(), func(*market.State) { x.closeWatches() })
}
