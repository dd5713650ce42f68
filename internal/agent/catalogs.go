package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/journal"
)

// CatalogName is the object in which an agent keeps its copy of the catalog.
const CatalogName = "catalog"

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// catalogs are this cluster's copies of the catalog, one for each broker and connector that it deals with: what they showed it last.
// They are kept over restarts, so that people see what there is while nobody is reached. Nothing but looking is done by them: what is
// bought, the seller signs anew.
type catalogs struct {
	kept journal.Journal
	log  *slog.Logger
	news chan struct{} // to be kept

	mu   sync.Mutex
	from map[string]*copied // by feed.via
	head journal.Head
}

// copied is what one broker showed.
type copied struct {
	// Token is that of the last bookmark; empty: this is not all.
	Token string `json:"token,omitempty"`
	// AsOf is when it was last known to be so.
	AsOf metav1.Time `json:"asOf"`
	// Offers are those that it shows, by seller.
	Offers map[string][]listing `json:"offers"`

	next    map[string][]listing // of a telling of everything that has not ended
	sizes   map[string]int       // of Offers, or of next where there is one: in bytes of memory, by seller
	bytes   int                  // the sum of sizes
	less    bool                 // more was shown than is kept
	changed bool
	live    bool // heard since it was last lost
}

const (
	// keepAfter is how long news of the catalog waits for more before it is kept, keepEvery how long the next do.
	keepAfter = time.Second
	keepEvery = 10 * time.Second
	// entire asks for the catalog from the beginning.
	entire = "all"
)

// Bounds on the copy of what one broker or connector shows, in bytes of memory, by estimate. Without them it could fill the agent's memory.
// One telling of everything is kept beside the last one until it ends, so that a copy may take twice as much meanwhile.
const brokerShows, connectorShows = 32 << 20, 16 << 20

func maxShown(via string) int {
	if isBroker(via) {
		return brokerShows
	}
	return connectorShows
}

func newCatalogs(kept journal.Journal, log *slog.Logger) *catalogs {
	return &catalogs{kept: kept, log: log, news: make(chan struct{}, 1), from: map[string]*copied{}}
}

// load reads what was kept. A copy that cannot be read is made anew.
func (c *catalogs) load(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := map[string]*copied{}
	take := func(_ journal.Head, state []byte) error { return json.Unmarshal(state, &from) }
	var err error
	if c.head, err = c.kept.Load(ctx, take, func(journal.Record) error { return nil }); err != nil {
		c.log.Warn("the copy of the catalog cannot be read: it is made anew", "error", err, "remedy", "if this stays so, delete ledger "+CatalogName+": it is only a copy")
		return
	}
	for via, one := range from {
		if one != nil && one.Offers != nil {
			one.measure()
			c.from[via] = one
		}
	}
}

// run keeps what changes, until ctx ends, and what changed last before that.
func (c *catalogs) run(ctx context.Context) error {
	for wait := keepAfter; ; wait = keepEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-c.news:
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			c.keep(last)
			return nil
		case <-time.After(wait):
		}
		c.keep(ctx)
	}
}

func (c *catalogs) keep(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := maps.Clone(c.from)
	for {
		state, err := json.Marshal(from)
		if err == nil {
			err = c.write(ctx, state)
		}
		if !errors.Is(err, journal.ErrFull) || !halve(from) {
			if err != nil && ctx.Err() == nil {
				c.log.Warn("the copy of the catalog was not kept", "error", err)
				c.tell()
			}
			return
		}
	}
}

// write replaces what is kept.
func (c *catalogs) write(ctx context.Context, state []byte) (err error) {
	nothing := func(journal.Head, []byte) error { return nil }
	if c.head.Lineage == "" {
		if c.head, err = c.kept.Load(ctx, nothing, func(journal.Record) error { return nil }); err != nil {
			return err
		}
	}
	if c.head, err = c.kept.Append(ctx, c.head, [][]byte{[]byte(`{}`)}); err == nil {
		err = c.kept.Snapshot(ctx, c.head, state)
	}
	if err != nil {
		c.head = journal.Head{} // whoever wrote it: it is read again
	}
	return err
}

// halve leaves out half of the sellers, because an object has an end. Nothing says then that it is all.
func halve(from map[string]*copied) (less bool) {
	for via, one := range from {
		names := slices.Sorted(maps.Keys(one.Offers))
		part := &copied{AsOf: one.AsOf, Offers: map[string][]listing{}}
		for _, name := range names[:len(names)/2] {
			part.Offers[name] = one.Offers[name]
		}
		less = less || len(names) > 0
		from[via] = part
	}
	return less
}

// tell says that there is something to be kept.
func (c *catalogs) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// token is from where a feed is to tell of the catalog; empty: it need not, because what it sells is this cluster's.
func (c *catalogs) token(f *feed) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch one := c.from[f.via]; {
	case f.via == f.borrower.Cluster:
		return ""
	case one == nil || one.Token == "":
		return entire
	default:
		return one.Token
	}
}

// begin forgets up to where a feed has told: it does not know that any more.
func (c *catalogs) begin(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.from[f.via]; one != nil {
		one.Token = ""
	}
}

// forget drops what a broker showed that was removed.
func (c *catalogs) forget(via string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.from, via)
	c.tell()
}

// hear takes in what a feed says of the catalog.
func (c *catalogs) hear(f *feed, e api.WatchEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.from[f.via]
	switch e.Type {
	case api.WatchCatalog:
		if one == nil {
			one = &copied{Offers: map[string][]listing{}}
			c.from[f.via] = one
		}
		if one.drop(); e.Complete {
			one.next = map[string][]listing{}
			one.sizes, one.bytes, one.less = nil, 0, false
		}
	case api.WatchSeller:
		if one != nil {
			one.take(e.Seller, maxShown(f.via))
		}
	case api.WatchBookmark:
		if one == nil {
			return
		}
		if one.next != nil {
			one.Offers, one.next, one.changed = one.next, nil, true
		}
		if one.Token, one.AsOf, one.live = e.Token, metav1.Now(), true; one.less {
			one.Token = "" // this is not all
		}
		if one.changed {
			one.changed = false
			c.tell()
		}
	}
}

// take puts what a seller shows in place of what it showed. What goes beyond most bytes of all sellers is left out.
func (o *copied) take(s *api.Stall, most int) {
	offers := o.Offers
	if o.next != nil {
		offers = o.next
	}
	o.changed = true
	was := offers[s.Cluster]
	next := make([]listing, 0, len(s.Offers))
	switch {
	case s.Lease:
		for _, l := range was {
			l.Payload.Fresh, l.Payload.SilentSince = s.Fresh, s.SilentSince
			next = append(next, l)
		}
	case s.Part > 0:
		next = append(next, was...)
		fallthrough
	default:
		if s.Part == 0 {
			o.bytes -= o.sizes[s.Cluster]
			delete(o.sizes, s.Cluster)
		}
		for _, l := range s.Offers {
			if l.Payload.Seller != s.Cluster || l.ID != s.Cluster+"/"+l.Payload.Name {
				continue
			}
			size := memoryOf(&l)
			if o.bytes+size > most {
				o.less = true
				continue
			}
			if o.sizes == nil {
				o.sizes = map[string]int{}
			}
			o.sizes[s.Cluster] += size
			o.bytes += size
			next = append(next, l)
		}
	}
	if offers[s.Cluster] = next; len(next) == 0 {
		delete(offers, s.Cluster)
	}
}

// drop forgets a telling of everything that has not ended.
func (o *copied) drop() {
	if o.next != nil {
		o.next = nil
		o.measure()
	}
}

// measure reckons anew what the offers take.
func (o *copied) measure() {
	o.sizes, o.bytes = map[string]int{}, 0
	for seller, offers := range o.Offers {
		for i := range offers {
			o.sizes[seller] += memoryOf(&offers[i])
		}
		o.bytes += o.sizes[seller]
	}
}

// memoryOf estimates how much memory an offer takes, in bytes.
func memoryOf(l *listing) int {
	data, err := json.Marshal(l)
	if err != nil {
		return math.MaxInt32 // no broker shows it
	}
	return int(decoded.Cost(data)) + int(unsafe.Sizeof(*l))
}

// lost has the time be kept until which what a feed showed was so: once, however often it is tried in vain then.
func (c *catalogs) lost(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.from[f.via]
	if one == nil {
		return
	}
	one.drop()
	if one.changed = false; one.live {
		one.live = false
		c.tell()
	}
}

// shown are the copied offers of those that are named, as of when they were so; has says whether there is a copy of any of them.
func (c *catalogs) shown(vias []string, q api.CatalogQuery, now time.Time) (all []listing, has bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, via := range vias {
		one := c.from[via]
		if one == nil {
			continue
		}
		has = true
		for _, offers := range one.Offers {
			for _, l := range offers {
				l.Payload.AsOf = &one.AsOf
				if found, ok := lookAt(l, q, now); ok {
					all = append(all, found)
				}
			}
		}
	}
	return all, has
}

// vias are those of whom there is a copy.
func (c *catalogs) vias() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.from))
}
