package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/consumer"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memory"
)

// small is a journal that takes only small snapshots.
type small struct {
	journal.Journal
	most int
}

func (s small) Snapshot(ctx context.Context, at journal.Head, state []byte) error {
	if len(state) > s.most {
		return journal.ErrFull
	}
	return s.Journal.Snapshot(ctx, at, state)
}

func stallOf(seller string, names ...string) api.WatchEvent {
	s := &api.Stall{Cluster: seller, Fresh: true}
	for _, name := range names {
		s.Offers = append(s.Offers, listing{ID: seller + "/" + name, Payload: api.Listing{
			Seller: seller, Name: name, Fresh: true, Offer: api.OfferSpec{Plans: []api.Plan{{Name: "p"}}}, Plans: map[string]api.PlanListing{"p": {Remaining: 1}},
		}})
	}
	return api.WatchEvent{Type: api.WatchSeller, Seller: s}
}

func (c *catalogs) names(q api.CatalogQuery, now time.Time) string {
	found, _ := c.shown([]string{""}, q, now)
	var out []string
	for _, l := range merged(found, q, now) {
		out = append(out, l.ID)
	}
	return strings.Join(out, " ")
}

// A copy is what was told to its end, and what is kept is read again; what one seller is said to sell is not another's.
func TestCatalogCopies(t *testing.T) {
	kept := memory.New()
	f := &feed{borrower: &consumer.Borrower{Cluster: "rome"}}
	open := func() *catalogs {
		c := newCatalogs(kept, slog.New(slog.DiscardHandler))
		c.load(t.Context())
		return c
	}
	c, now := open(), time.Now()
	tell := func(events ...api.WatchEvent) {
		for _, e := range events {
			c.hear(f, e)
		}
	}
	expect := func(what, want string) {
		t.Helper()
		if got := c.names(api.CatalogQuery{}, now); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	end := func(token string) api.WatchEvent { return api.WatchEvent{Type: api.WatchBookmark, Token: token} }
	all, news := api.WatchEvent{Type: api.WatchCatalog, Complete: true}, api.WatchEvent{Type: api.WatchCatalog}

	tell(stallOf("milan", "web"), end("a.1"))
	expect("of who did not open a catalog", "")
	tell(all, stallOf("milan", "web"), stallOf("oslo", "gpu"))
	expect("before the end", "")
	tell(end("a.2"))
	expect("all", "milan/web oslo/gpu")
	more := stallOf("milan", "more")
	more.Seller.Part = 1
	tell(stallOf("milan", "web", "db"), more, end("a.3"))
	expect("in two parts", "milan/db milan/more milan/web oslo/gpu")
	forged := stallOf("milan", "web")
	forged.Seller.Cluster = "oslo"
	tell(forged, stallOf("milan", "web"), end("a.4"))
	expect("an offer of milan's among oslo's", "milan/web")
	silent := metav1.NewTime(now.Add(-25 * time.Hour))
	tell(api.WatchEvent{Type: api.WatchSeller, Seller: &api.Stall{Cluster: "milan", Lease: true, SilentSince: &silent}}, end("a.5"))
	expect("a day after its lease ended", "")
	if got := c.names(api.CatalogQuery{Hidden: true}, now); got != "milan/web" {
		t.Errorf("hidden: %q", got)
	}
	if got := c.names(api.CatalogQuery{Hidden: true}, now.Add(api.ExpiredAfter)); got != "" {
		t.Errorf("expired: %q", got)
	}
	tell(stallOf("milan", "web"), end("a.6"))
	c.keep(t.Context())
	tell(all, stallOf("oslo", "gpu"))
	c.lost(f)
	expect("a telling that broke off", "milan/web")
	<-c.news // that the watch ended is kept
	if c.lost(f); len(c.news) > 0 {
		t.Error("it is kept again for each attempt in vain")
	}

	c = open()
	expect("after a restart", "milan/web")
	if token := c.token(f); token != "a.6" {
		t.Errorf("it goes on from %q", token)
	}
	tell(news, stallOf("milan"), end("a.7"))
	expect("withdrawn", "")
	c.keep(t.Context())
	if c = open(); c.token(&feed{via: "rome", borrower: f.borrower}) != "" {
		t.Error("it copies its own connector")
	}
	expect("withdrawn, after another restart", "")
}

// A catalog that is larger than an object may be is kept in part, and asked for anew after a restart.
func TestLargeCatalogs(t *testing.T) {
	kept := small{memory.New(), 4000}
	f := &feed{borrower: &consumer.Borrower{Cluster: "rome"}}
	c := newCatalogs(kept, slog.New(slog.DiscardHandler))
	c.load(t.Context())
	c.hear(f, api.WatchEvent{Type: api.WatchCatalog, Complete: true})
	for i := range 100 {
		c.hear(f, stallOf(fmt.Sprintf("seller%d", i), "web"))
	}
	c.hear(f, api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
	c.keep(t.Context())
	if n := len(strings.Fields(c.names(api.CatalogQuery{}, time.Now()))); n != 100 {
		t.Errorf("%d are shown", n)
	}
	c = newCatalogs(kept, slog.New(slog.DiscardHandler))
	c.load(t.Context())
	if n := len(strings.Fields(c.names(api.CatalogQuery{}, time.Now()))); n == 0 || n == 100 {
		t.Errorf("%d are kept", n)
	}
	if token := c.token(f); token != entire {
		t.Errorf("it goes on from %q", token)
	}
}

// However much a connector shows, in one telling or in many, with or without an end, the copy of it is bounded and says that it is not all.
func TestCatalogCopiesAreBounded(t *testing.T) {
	f := &feed{via: "milan", borrower: &consumer.Borrower{Cluster: "rome"}}
	c := newCatalogs(memory.New(), slog.New(slog.DiscardHandler))
	number := 0
	flood := func() {
		var names []string
		for range 500 {
			number++
			names = append(names, fmt.Sprint("offer-", number))
		}
		e := stallOf("milan", names...)
		for part := range 40 {
			e.Seller.Part = part
			c.hear(f, e)
		}
	}
	whole, news, end := api.WatchEvent{Type: api.WatchCatalog, Complete: true}, api.WatchEvent{Type: api.WatchCatalog}, api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"}
	check := func(what string) {
		t.Helper()
		one, takes := c.from["milan"], 0
		for _, offers := range []map[string][]listing{one.Offers, one.next} {
			all := 0
			for _, of := range offers {
				for i := range of {
					all += memoryOf(&of[i])
				}
			}
			takes = max(takes, all)
		}
		if takes > connectorShows || takes < connectorShows/2 {
			t.Errorf("%s: the copy takes %d bytes, want at most %d, and not much less", what, takes, connectorShows)
		}
		if one.bytes > connectorShows {
			t.Errorf("%s: %d bytes are counted", what, one.bytes)
		}
		if one.Token != "" {
			t.Errorf("%s: the copy says that it is all", what)
		}
	}
	c.hear(f, whole)
	flood()
	check("everything")
	c.hear(f, end)
	check("everything, to its end")
	for range 3 {
		c.hear(f, whole)
		flood()
		c.lost(f)
		c.hear(f, news)
		flood()
		c.hear(f, end)
		check("news after a telling without an end")
	}
	c.hear(f, whole)
	c.hear(f, stallOf("milan", "web"))
	c.hear(f, end)
	if one := c.from["milan"]; one.Token != "a.1" || len(one.Offers["milan"]) != 1 {
		t.Errorf("%d offers with token %q, want the one that it shows now", len(one.Offers["milan"]), one.Token)
	}
}
