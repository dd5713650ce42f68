package server

import (
	"context"
	"math/big"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

const (
	// wholeCatalog asks for the catalog from its beginning.
	wholeCatalog = "all"
	// bytesPerEvent is the approximate number of bytes of offers in one event.
	bytesPerEvent = mostHeld / 2
)

// catalogCursor is the position of one watch in the catalog: one bit per seller, because there are
// many watches.
type catalogCursor struct {
	s        *Server
	cluster  string
	complete bool // the next write is of all sellers
	opened   bool
	shown    big.Int // by slot, a bit: the watch has offers of the seller
}

// openCatalog makes a watch follow the catalog: all of it, or the changes since a token.
func (s *Server) openCatalog(ctx context.Context, cluster string,
	w *exchange.Watch, from string) (*catalogCursor, error) {
	lineage, revision := "", uint64(0)
	if from != wholeCatalog {
		var err error
		if lineage, revision, err = parseToken(from); err != nil {
			return nil, api.Invalid("catalog", "%.80q is not the token of a bookmark", from).
				Fix("watch with catalog=%s", wholeCatalog)
		}
	}
	complete, err := w.FollowCatalog(ctx, lineage, revision)
	return &catalogCursor{s: s, cluster: cluster, complete: complete}, err
}

// write writes the changes of the catalog, a few sellers at a time.
func (c *catalogCursor) write(w *exchange.Watch, events *events) {
	changes, everything := w.Catalog() // must precede reading the view
	if c.complete || everything {
		c.writeAll(events)
		return
	}
	view, now := c.s.Exchange.View(), c.s.Exchange.Now()
	if !c.opened {
		c.opened = true
		c.resume(view)
		for _, change := range changes {
			if l := view.Listing(change.Seller); l != nil && c.shown.Bit(l.Slot) == 0 {
				c.writeAll(events) // the watcher may have its offers from before the restart
				return
			}
		}
		events.add(api.WatchEvent{Type: api.WatchCatalog})
	}
	for _, change := range changes {
		if l := view.Listing(change.Seller); l != nil && events.err == nil {
			c.writeSeller(l, now, change.Lease, events)
		}
	}
}

func (c *catalogCursor) writeAll(events *events) {
	c.complete, c.opened, c.shown = false, true, big.Int{}
	events.add(api.WatchEvent{Type: api.WatchCatalog, Complete: true})
	view, now := c.s.Exchange.View(), c.s.Exchange.Now()
	for slot := range view.Len() {
		if l := view.At(slot); len(l.Offers) > 0 && events.err == nil {
			c.writeSeller(l, now, false, events)
		}
	}
}

// resume assumes that the watch has offers of every seller that is visible to the cluster. So it may
// learn that a visible seller has no more offers, which is not secret.
func (c *catalogCursor) resume(view *market.View) {
	card := c.card(view)
	for slot := range view.Len() {
		if l := view.At(slot); l.Measured != nil && l.Active() &&
			(l.Cluster == c.cluster || match.Visible(l.Measured.Terms, &card)) {
			c.mark(slot, true)
		}
	}
}

func (c *catalogCursor) card(view *market.View) api.Card {
	if l := view.Listing(c.cluster); l != nil {
		return l.Card()
	}
	return api.Card{Cluster: c.cluster}
}

// mark records whether the watch has offers of a seller, and returns the previous record.
func (c *catalogCursor) mark(slot int, shown bool) (before bool) {
	bit := c.shown.Bit(slot)
	if before = bit == 1; before != shown {
		c.shown.SetBit(&c.shown, slot, 1-bit)
	}
	return before
}

// writeSeller writes the offers that a seller shows to the cluster. It writes nothing if there are
// none and the watch has none.
func (c *catalogCursor) writeSeller(l *market.Listing,
	now market.Time, lease bool, events *events) {
	card := c.card(c.s.Exchange.View())
	var shown []*market.Offer
	for _, o := range l.Offers {
		if (match.Offered{Listing: l, Offer: o}).Shown(&card, now) {
			shown = append(shown, o)
		}
	}
	before := c.mark(l.Slot, len(shown) > 0)
	if len(shown) == 0 && !before {
		return
	}
	addSeller(events, l, shown, lease && before && len(shown) > 0, now)
}

// addSeller adds the offers that a seller shows, in several events if they are large. With lease it
// adds only whether the seller's lease is alive.
func addSeller(events *events, l *market.Listing,
	shown []*market.Offer, lease bool, now market.Time) {
	since, _ := silence(l, now)
	event := api.SellerOffers{Cluster: l.Cluster,
		Lease: lease, Fresh: l.Fresh(now), SilentSince: since}
	if lease {
		shown = nil
	}
	size := 0
	for _, o := range shown {
		if size += 3 * len(o.Document); len(event.Offers) > 0 && size > bytesPerEvent {
			events.add(api.WatchEvent{Type: api.WatchSeller, Seller: &event})
			event.Offers, event.Part = nil, event.Part+1
			size = 3 * len(o.Document)
		}
		found := match.FoundOf(match.Offered{Listing: l, Offer: o}, now)
		event.Offers = append(event.Offers, listing(&found, now, time.Hour))
	}
	events.add(api.WatchEvent{Type: api.WatchSeller, Seller: &event})
}
