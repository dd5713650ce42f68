package server

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

const (
	// wholeCatalog asks for the catalog from its beginning.
	wholeCatalog = "all"
	// perStall is about how many bytes of offers go into one event.
	perStall = 256 << 10
	// rememberStalls is how many sellers' events are kept for the next reader: a change goes to many at once.
	rememberStalls = 256
)

// window is what one watch has been shown of the catalog: per seller no more than a bit, because there are many watches.
type window struct {
	s        *Server
	cluster  string
	complete bool // the next telling is of everything
	opened   bool
	shown    []uint64 // by slot: the seller was told with offers
}

// openWindow has a watch follow the catalog: all of it, or what changed since a token.
func (s *Server) openWindow(ctx context.Context, cluster string, w *exchange.Watch, from string) (*window, error) {
	lineage, revision := "", uint64(0)
	if from != wholeCatalog {
		var err error
		if lineage, revision, err = parseToken(from); err != nil {
			return nil, api.Invalid("catalog", "%.80q is not the token of a bookmark", from).Fix("watch with catalog=%s", wholeCatalog)
		}
	}
	complete, err := w.FollowCatalog(ctx, lineage, revision)
	return &window{s: s, cluster: cluster, complete: complete}, err
}

// tell writes what is news of the catalog, a few sellers at a time.
func (v *window) tell(w *exchange.Watch, events *events) error {
	changes, everything := w.Catalog() // before the view that is read
	if v.complete || everything {
		return v.tellAll(events)
	}
	view, now := v.s.Exchange.View(), v.s.Exchange.Now()
	if !v.opened {
		v.opened = true
		v.resume(view)
		for _, change := range changes {
			if l := view.Listing(change.Seller); l != nil && !v.told(l.Slot) {
				return v.tellAll(events) // its reader may have been shown it before, which nothing here remembers
			}
		}
		if err := events.add(api.WatchEvent{Type: api.WatchCatalog}); err != nil {
			return err
		}
	}
	for _, change := range changes {
		l := view.Listing(change.Seller)
		if l == nil {
			continue
		}
		if err := v.tellSeller(l, now, change.Lease, events); err != nil {
			return err
		}
	}
	return nil
}

func (v *window) tellAll(events *events) error {
	v.complete, v.opened, v.shown = false, true, nil
	if err := events.add(api.WatchEvent{Type: api.WatchCatalog, Complete: true}); err != nil {
		return err
	}
	view, now := v.s.Exchange.View(), v.s.Exchange.Now()
	for slot := range view.Len() {
		if l := view.At(slot); len(l.Offers) > 0 {
			if err := v.tellSeller(l, now, false, events); err != nil {
				return err
			}
		}
	}
	return nil
}

// resume takes for told who shows itself to the cluster. That one of them offers nothing any more is no secret.
func (v *window) resume(view *market.View) {
	card := v.card(view)
	for slot := range view.Len() {
		if l := view.At(slot); l.Measured != nil && l.Active() && (l.Cluster == v.cluster || match.Visible(l.Measured.Terms, &card)) {
			v.mark(slot, true)
		}
	}
}

func (v *window) card(view *market.View) api.Card {
	if l := view.Listing(v.cluster); l != nil {
		return l.Card()
	}
	return api.Card{Cluster: v.cluster}
}

func (v *window) told(slot int) bool {
	return slot/64 < len(v.shown) && v.shown[slot/64]&(1<<(slot%64)) != 0
}

// mark notes whether a seller was told with offers, and returns what was noted before.
func (v *window) mark(slot int, shown bool) (before bool) {
	at, bit := slot/64, uint64(1)<<(slot%64)
	for shown && at >= len(v.shown) {
		v.shown = append(v.shown, 0)
	}
	if at >= len(v.shown) {
		return false
	}
	before = v.told(slot)
	if v.shown[at] &^= bit; shown {
		v.shown[at] |= bit
	}
	return before
}

// tellSeller writes what a seller shows, unless it shows nothing and never did.
func (v *window) tellSeller(l *market.Listing, now market.Time, lease bool, events *events) error {
	card := v.card(v.s.Exchange.View())
	var shown []*market.Offer
	for _, o := range l.Offers {
		if (match.Offered{Listing: l, Offer: o}).Shown(&card, now) {
			shown = append(shown, o)
		}
	}
	before := v.mark(l.Slot, len(shown) > 0)
	if len(shown) == 0 && !before {
		return nil
	}
	lines, err := v.s.stalls.of(l, shown, lease && before && len(shown) > 0, now)
	if err != nil {
		return err
	}
	return events.addLines(lines)
}

// stalls remembers the events of sellers, encoded.
type stalls struct {
	once  sync.Once
	known *lru.Cache
}

// stall is what a seller's event was made of: as long as that is so it is the same for whoever is shown these offers.
type stall struct {
	listing *market.Listing
	shown   []*market.Offer
	lease   bool
	fresh   bool
	lines   []byte
}

func (s *stalls) of(l *market.Listing, shown []*market.Offer, lease bool, now market.Time) ([]byte, error) {
	s.once.Do(func() { s.known = lru.New(rememberStalls) })
	next := &stall{listing: l, shown: shown, lease: lease, fresh: l.Fresh(now)}
	if found, ok := s.known.Get(l.Cluster); ok {
		if had := found.(*stall); had.listing == l && had.lease == lease && had.fresh == next.fresh && slices.Equal(had.shown, shown) {
			return had.lines, nil
		}
	}
	var err error
	if next.lines, err = next.encode(now); err != nil {
		return nil, err
	}
	s.known.Add(l.Cluster, next)
	return next.lines, nil
}

// encode makes the seller's events, each a line.
func (s *stall) encode(now market.Time) (lines []byte, err error) {
	l := s.listing
	since, _ := silence(l, now)
	event := api.Stall{Cluster: l.Cluster, Lease: s.lease, Fresh: s.fresh, SilentSince: since}
	line := func() {
		var data []byte
		if data, err = json.Marshal(api.WatchEvent{Type: api.WatchSeller, Seller: &event}); err == nil {
			lines = append(append(lines, data...), '\n')
		}
		event.Offers, event.Part = nil, event.Part+1
	}
	size := 0
	for _, o := range s.shown {
		if s.lease {
			break
		}
		if size += 3 * len(o.Document); len(event.Offers) > 0 && size > perStall {
			if line(); err != nil {
				return nil, err
			}
			size = 3 * len(o.Document)
		}
		found := match.FoundOf(match.Offered{Listing: l, Offer: o}, now)
		event.Offers = append(event.Offers, listing(&found, now, time.Hour))
	}
	line()
	return lines, err
}
