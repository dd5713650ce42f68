package catalogcache

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/test/raced"
)

// However many brokers and connectors show as much as they can, all copies of a kind stay within a bound. None
// loses what it has shown because another shows more.
func TestCopiesTogetherAreBounded(t *testing.T) {
	raced.Skip(t)
	for kind, bound := range map[string]struct{ one, all int }{
		"seller-":  {maxOfConnector, maxOfConnectors},
		"broker/b": {maxOfBroker, maxOfBrokers},
	} {
		c := New(Options{Clock: clock.RealClock{},
			Cluster: "rome", Journal: memorytest.New(), Log: slog.New(slog.DiscardHandler)})
		parties := bound.all/bound.one + 2
		for range 2 { // the second time the copies before are kept meanwhile
			for i := range parties {
				via := fmt.Sprint(kind, i)
				c.Record(via, api.WatchEvent{Type: api.WatchCatalog, Complete: true})
				e := stallOf("milan", "web")
				e.Seller.Offers[0].Payload.Document = strings.Repeat("d", 1<<20)
				for e.Seller.Part = range bound.one>>20 + 1 {
					c.Record(via, e)
				}
				if last := i + 1; last < parties { // the last is still sending
					c.Record(via, api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
				}
			}
			all := 0
			for _, one := range c.copies {
				all += max(one.bytes, cmp.Or(one.pending, &shown{}).bytes)
			}
			if all > bound.all || all < bound.all/2 {
				t.Errorf("%d copies of %s... take %d bytes, want at most %d", parties, kind, all, bound.all)
			}
		}
		if first := c.copies[kind+"0"]; first.bytes < bound.one/2 {
			t.Errorf("%s0, which came first, has a copy of %d bytes", kind, first.bytes)
		}
	}
}
