package catalog

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/test/raced"
)

// bigDocument is shared by all offers of this test, so that they count as large and take little memory.
var bigDocument = strings.Repeat("d", 1<<20)

// shower is a party that shows its catalog again and again.
type shower struct {
	via    string
	offers int // of 1 MiB each
	shown  int // how many of the current watch; -1: the watch has not begun
	whole  bool
}

// step shows the next part of the catalog to a cache, or its end.
func (s *shower) step(c *Cache) {
	switch {
	case s.shown < 0:
		c.Record(s.via, api.WatchEvent{Type: api.WatchCatalog, Complete: true})
		s.shown = 0
	case s.shown < s.offers:
		e := stallOf("milan", fmt.Sprint("offer-", s.shown))
		e.Seller.Offers[0].Payload.Document = bigDocument
		e.Seller.Part = s.shown
		c.Record(s.via, e)
		s.shown++
	default:
		c.Record(s.via, api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
		s.shown, s.whole = -1, true
	}
}

// In any order in which brokers and connectors show their catalogs, and show them again, the copies of a kind
// stay within a bound. A catalog that takes no more than an equal share is kept whole.
func TestCopiesTogetherAreBounded(t *testing.T) {
	raced.Skip(t)
	for kind, bound := range map[string]struct{ one, all int }{
		"seller-":  {maxOfConnector, maxOfConnectors},
		"broker/b": {maxOfBroker, maxOfBrokers},
	} {
		for seed := range uint64(2) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := New(Options{Clock: clock.RealClock{},
				Cluster: "rome", Journal: memorytest.New(), Log: slog.New(slog.DiscardHandler)})
			parties := make([]*shower, bound.all/bound.one+2)
			share := bound.all / len(parties) >> 20
			for i := range parties {
				parties[i] = &shower{via: fmt.Sprint(kind, i), offers: bound.one>>20 + 1, shown: -1}
			}
			honest := parties[len(parties)-1]
			honest.offers = share - 1
			for range 5 * bound.all >> 20 {
				parties[r.IntN(len(parties))].step(c)
				all := 0
				for _, copied := range c.copies {
					all += copied.Size()
				}
				if all > bound.all {
					t.Fatalf("seed %d: %d copies of %s... take %d bytes, want at most %d", seed, len(parties), kind, all, bound.all)
				}
				if of := c.copies[honest.via]; honest.whole && honest.shown < 0 &&
					(len(of.Offers["milan"]) != honest.offers || of.Token == "") {
					t.Fatalf("seed %d: %d of %d offers of %s are kept with token %q, although it shows less than its share",
						seed, len(of.Offers["milan"]), honest.offers, honest.via, of.Token)
				}
			}
			if !honest.whole {
				t.Errorf("seed %d: %s has shown nothing", seed, honest.via)
			}
		}
	}
}

// Two sellers that show as much as they can, and never end, leave a third its share.
func TestTwoSellersTakeAllThereIs(t *testing.T) {
	raced.Skip(t)
	c := New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: memorytest.New(), Log: slog.New(slog.DiscardHandler)})
	for _, via := range []string{"bad-1", "bad-2"} {
		for one := (&shower{via: via, offers: 20, shown: -1}); one.shown < one.offers; {
			one.step(c)
		}
	}
	for one := (&shower{via: "good", offers: 3, shown: -1}); !one.whole; {
		one.step(c)
	}
	if of := c.copies["good"]; len(of.Offers["milan"]) != 3 || of.Token == "" {
		t.Errorf("%d of its 3 offers are kept, with token %q", len(of.Offers["milan"]), of.Token)
	}
}

// All copies together take no more than a part of the memory that Go may take.
func TestCopiesAreAPartOfTheMemory(t *testing.T) {
	b := newBounds(208 << 20)
	if brokers, connectors := 208<<20/partOfBrokers, 208<<20/partOfConnectors; b.brokers.All != brokers ||
		b.brokers.Each != brokers || b.connectors.All != connectors || b.connectors.Each != maxOfConnector {
		t.Errorf("the bounds are %+v", b)
	}
	raced.Skip(t)
	c := New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: memorytest.New(), Log: slog.New(slog.DiscardHandler)})
	c.bounds = newBounds(partOfConnectors * 4 << 20)
	all := 0
	for i := range 3 {
		one := &shower{via: fmt.Sprint("seller-", i), offers: 6, shown: -1}
		for one.step(c); one.shown >= 0; {
			one.step(c)
		}
	}
	for _, copied := range c.copies {
		all += copied.Size()
	}
	if all > c.bounds.connectors.All || all < c.bounds.connectors.All/2 {
		t.Errorf("three copies take %d bytes of %d", all, c.bounds.connectors.All)
	}
}
