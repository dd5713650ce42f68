package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/test/raced"
)

// small is a journal that takes only small snapshots.
type small struct {
	journal.Journal
	most int
}

func (s small) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	var state bytes.Buffer
	if err := write(&state); err != nil || state.Len() > s.most {
		return errors.Join(err, journal.ErrFull)
	}
	return s.Journal.Snapshot(ctx, head, write)
}

func stallOf(seller string, names ...string) api.WatchEvent {
	s := &api.SellerOffers{Cluster: seller, Fresh: true}
	for _, name := range names {
		s.Offers = append(s.Offers, listing{ID: seller + "/" + name, Payload: api.Listing{
			Seller: seller, Name: name, Fresh: true, Offer: api.OfferSpec{Plans: []api.Plan{{Name: "p"}}}, Plans: map[string]api.PlanListing{"p": {Remaining: 1}},
		}})
	}
	return api.WatchEvent{Type: api.WatchSeller, Seller: s}
}

func (c *Cache) names(q api.CatalogQuery, now time.Time) string {
	found, _ := c.Search([]string{""}, q, now)
	var out []string
	for _, l := range Merge(found, q, now) {
		out = append(out, l.ID)
	}
	return strings.Join(out, " ")
}

// A copy holds what a watch sent up to a bookmark. A saved copy is read again. An offer that names another
// seller is left out.
func TestCatalogCopies(t *testing.T) {
	kept := memorytest.New()
	open := func() *Cache {
		c := New(Options{Clock: clock.RealClock{},
			Cluster: "rome", Journal: kept, Log: slog.New(slog.DiscardHandler)})
		c.Load(t.Context())
		return c
	}
	c, now := open(), time.Now()
	tell := func(events ...api.WatchEvent) {
		for _, e := range events {
			c.Record("", e)
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
	tell(api.WatchEvent{Type: api.WatchSeller, Seller: &api.SellerOffers{Cluster: "milan",
		Lease: true, SilentSince: &silent}}, end("a.5"))
	expect("a day after its lease ended", "")
	if got := c.names(api.CatalogQuery{Hidden: true}, now); got != "milan/web" {
		t.Errorf("hidden: %q", got)
	}
	if got := c.names(api.CatalogQuery{Hidden: true}, now.Add(api.ExpiredAfter)); got != "" {
		t.Errorf("expired: %q", got)
	}
	tell(stallOf("milan", "web"), end("a.6"))
	c.save(t.Context())
	tell(all, stallOf("oslo", "gpu"))
	c.MarkLost("")
	expect("a telling that broke off", "milan/web")
	<-c.changed // that the watch ended is kept
	if c.MarkLost(""); len(c.changed) > 0 {
		t.Error("each failed attempt saves it again")
	}

	c = open()
	expect("after a restart", "milan/web")
	if token := c.Token(""); token != "a.6" {
		t.Errorf("it goes on from %q", token)
	}
	tell(news, stallOf("milan"), end("a.7"))
	expect("withdrawn", "")
	c.save(t.Context())
	if c = open(); c.Token("rome") != "" {
		t.Error("it copies its own connector")
	}
	expect("withdrawn, after another restart", "")
}

// A catalog that is larger than an object may be is saved in part, and read from the beginning
// after a restart.
func TestLargeCatalogs(t *testing.T) {
	kept := small{memorytest.New(), 4000}
	c := New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: kept, Log: slog.New(slog.DiscardHandler)})
	c.Load(t.Context())
	c.Record("", api.WatchEvent{Type: api.WatchCatalog, Complete: true})
	for i := range 100 {
		c.Record("", stallOf(fmt.Sprintf("seller%d", i), "web"))
	}
	c.Record("", api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"})
	c.save(t.Context())
	if n := len(strings.Fields(c.names(api.CatalogQuery{}, time.Now()))); n != 100 {
		t.Errorf("%d are shown", n)
	}
	c = New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: kept, Log: slog.New(slog.DiscardHandler)})
	c.Load(t.Context())
	if n := len(strings.Fields(c.names(api.CatalogQuery{}, time.Now()))); n == 0 || n == 100 {
		t.Errorf("%d are kept", n)
	}
	if token := c.Token(""); token != everything {
		t.Errorf("it goes on from %q", token)
	}
}

// However much a connector shows, at once or in many watches, with or without an end, its copy is bounded and
// has no token.
func TestCatalogCopiesAreBounded(t *testing.T) {
	raced.Skip(t)
	c := New(Options{Clock: clock.RealClock{},
		Cluster: "rome", Journal: memorytest.New(), Log: slog.New(slog.DiscardHandler)})
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
			c.Record("milan", e)
		}
	}
	whole, news, end := api.WatchEvent{Type: api.WatchCatalog,
		Complete: true}, api.WatchEvent{Type: api.WatchCatalog}, api.WatchEvent{Type: api.WatchBookmark, Token: "a.1"}
	check := func(what string) {
		t.Helper()
		copied, takes := c.copies["milan"], 0
		for _, kept := range []*shown{&copied.shown, cmp.Or(copied.pending, &shown{})} {
			all := 0
			for _, of := range kept.Offers {
				for i := range of {
					all += memoryOf(&of[i])
				}
			}
			takes = max(takes, all)
			if kept.bytes > maxOfConnector {
				t.Errorf("%s: %d bytes are counted", what, kept.bytes)
			}
		}
		if takes > maxOfConnector || takes < maxOfConnector/2 {
			t.Errorf("%s: the copy takes %d bytes, want at most %d, and not much less", what, takes, maxOfConnector)
		}
		if copied.Token != "" {
			t.Errorf("%s: the copy says that it is all", what)
		}
	}
	c.Record("milan", whole)
	flood()
	check("everything")
	c.Record("milan", end)
	check("everything, to its end")
	for range 3 {
		c.Record("milan", whole)
		flood()
		c.MarkLost("milan")
		c.Record("milan", news)
		flood()
		c.Record("milan", end)
		check("news after a telling without an end")
	}
	c.Record("milan", whole)
	c.Record("milan", stallOf("milan", "web"))
	c.Record("milan", end)
	if copied := c.copies["milan"]; copied.Token != "a.1" || len(copied.Offers["milan"]) != 1 {
		t.Errorf("%d offers with token %q, want the one that it shows now", len(copied.Offers["milan"]), copied.Token)
	}
}

// The first change is saved after a second, the next after ten, and the last at the end.
func TestRunSavesChanges(t *testing.T) {
	kept, now := memorytest.New(), testclock.NewFakeClock(time.Now())
	open := func() *Cache {
		c := New(Options{Cluster: "rome", Journal: kept, Clock: now, Log: slog.New(slog.DiscardHandler)})
		c.Load(t.Context())
		return c
	}
	c := open()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	c.Record("", api.WatchEvent{Type: api.WatchCatalog, Complete: true})
	number := 0
	change := func() string {
		number++
		c.Record("", stallOf("milan", fmt.Sprint("offer-", number)))
		c.Record("", api.WatchEvent{Type: api.WatchBookmark, Token: fmt.Sprint("a.", number)})
		return fmt.Sprint("milan/offer-", number)
	}
	wait := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	for _, after := range []time.Duration{firstSave, saveEvery, saveEvery} {
		want := change()
		wait("nothing waits to be saved", now.HasWaiters)
		now.Step(after - time.Millisecond)
		if !now.HasWaiters() {
			t.Errorf("saved before %s", after)
		}
		now.Step(time.Millisecond)
		wait("not saved", func() bool { return open().names(api.CatalogQuery{}, now.Now()) == want })
	}
	last := change()
	wait("nothing waits to be saved", now.HasWaiters)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := open().names(api.CatalogQuery{}, now.Now()); got != last {
		t.Errorf("at the end %q is saved, want %q", got, last)
	}
}
