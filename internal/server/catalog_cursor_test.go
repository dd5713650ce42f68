package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/test/raced"
)

// shopper follows the catalog as an agent does.
type shopper struct {
	t        *testing.T
	close    func()
	mu       sync.Mutex
	offers   map[string]map[string]int64 // versions, by seller and ID
	fresh    map[string]bool
	complete int // how often it was told everything
	sellers  int // how many events of sellers came
	token    string
}

// shops follows the catalog from a token on, knowing what another knew.
func shops(t *testing.T, m *servertest.Member, from string, known *shopper) *shopper {
	ctx, stop := context.WithCancel(context.Background())
	s := &shopper{t: t, offers: map[string]map[string]int64{}, fresh: map[string]bool{}}
	if known != nil {
		s.offers, s.fresh = maps.Clone(known.offers), maps.Clone(known.fresh)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- m.WatchCatalog(ctx, "", from, func(e api.WatchEvent) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch e.Type {
			case api.WatchCatalog:
				if e.Complete {
					s.complete++
					clear(s.offers)
				}
			case api.WatchSeller:
				s.sellers++
				if s.fresh[e.Seller.Cluster] = e.Seller.Fresh; e.Seller.Lease {
					break
				}
				if e.Seller.Part == 0 {
					s.offers[e.Seller.Cluster] = map[string]int64{}
				}
				for _, l := range e.Seller.Offers {
					s.offers[e.Seller.Cluster][l.ID] = l.Payload.Version
				}
			case api.WatchBookmark:
				s.token = e.Token
			}
			return nil
		})
	}()
	s.close = sync.OnceFunc(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) && api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("the watch ended with %v", err)
		}
	})
	t.Cleanup(s.close)
	s.until("the first bookmark", func() bool { return s.token != "" })
	return s
}

func (s *shopper) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		is, shown := holds(), s.shown()
		s.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not within 10 s: %s; it was shown %s", what, shown)
		}
	}
}

// shown is what it knows, as "milan/web@1".
func (s *shopper) shown() string {
	var out []string
	for _, offers := range s.offers {
		for id, version := range offers {
			out = append(out, fmt.Sprintf("%s@%d", id, version))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *shopper) sees(want string) {
	s.t.Helper()
	s.until("it is shown "+want, func() bool { return s.shown() == want })
}

// Who follows the catalog is told, as it happens, of what is shown to it and of nothing else;
// resuming tells what was missed.
func TestCatalogIsWatched(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan, oslo := f.Join("rome"), f.Join("milan"), f.Join("oslo")
	milan.Advertise("10")
	version := int64(0)
	publish := func(name string, to ...string) {
		t.Helper()
		version++
		offer := transporttest.WebOffer("0.10")
		offer.VisibleTo.Clusters = to
		if err := milan.PublishOffer(ctx, "milan", name, milan.SignOffer(name, version, offer)); err != nil {
			t.Fatal(err)
		}
	}
	withdraw := func(name string) {
		t.Helper()
		if err := milan.WithdrawOffer(ctx, "milan", name); err != nil {
			t.Fatal(err)
		}
	}
	publish("inner", "oslo")
	r, o := shops(t, rome, "all", nil), shops(t, oslo, "all", nil)
	o.sees("milan/inner@1")
	publish("inner", "oslo")
	o.sees("milan/inner@2")
	if r.sees(""); r.sellers > 0 || r.complete != 1 {
		t.Errorf("rome is told %d times of a seller that shows it nothing", r.sellers)
	}
	publish("web")
	r.sees("milan/web@3")
	o.sees("milan/inner@2 milan/web@3")
	publish("web")
	r.sees("milan/web@4")
	withdraw("web")
	r.sees("")
	o.sees("milan/inner@2")

	// What was missed, and only that.
	publish("web")
	r.sees("milan/web@5")
	r.close()
	publish("gpu")
	withdraw("web")
	again := shops(t, rome, r.token, r)
	if again.sees("milan/gpu@6"); again.complete != 0 {
		t.Error("it was told everything again")
	}
	if other := shops(t, rome, "other.7", r); other.complete != 1 {
		t.Errorf("the token of another life is answered by news: %+v", other.offers)
	}

	// An audience that shrinks, while one watches and while one does not.
	hide := milan.Measurement("10")
	hide.Terms = &api.Terms{VisibleTo: api.Audience{Clusters: []string{"oslo"}}}
	again.close()
	if err := milan.PutAdvertisement(ctx, "milan", hide); err != nil {
		t.Fatal(err)
	}
	o.sees("milan/gpu@6 milan/inner@2")
	back := shops(t, rome, again.token, again)
	back.sees("")
	milan.Advertise("10")
	back.sees("milan/gpu@6")

	// By another card it is shown other offers.
	labelled := transporttest.WebOffer("0.10")
	labelled.VisibleTo.Labels = map[string]string{"tier": "gold"}
	if err := milan.PublishOffer(ctx, "milan", "gold", milan.SignOffer("gold", 9, labelled)); err != nil {
		t.Fatal(err)
	}
	rome.ShowCard(api.Properties{Labels: map[string]string{"tier": "gold"}})
	back.sees("milan/gold@9 milan/gpu@6")

	if _, err := f.Operator.SetMember(ctx, "milan", "suspend"); err != nil {
		t.Fatal(err)
	}
	back.sees("")
}

// A seller with many offers is told in several events, none of them large.
func TestManyOffersOfOneSeller(t *testing.T) {
	raced.Skip(t)
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("10")
	long := transporttest.WebOffer("0.10")
	plan := long.Plans[0]
	for i := range api.MaxPlans - len(long.Plans) {
		plan.Name, plan.Description = fmt.Sprintf("p%d", i), strings.Repeat("x", 1000)
		long.Plans = append(long.Plans, plan)
	}
	const many = 60
	for i := range many {
		name := fmt.Sprintf("offer%d", i)
		if err := milan.PublishOffer(ctx, "milan", name, milan.SignOffer(name, 1, long)); err != nil {
			t.Fatal(err)
		}
	}
	s := shops(t, rome, "all", nil)
	s.until("all are shown", func() bool { return len(s.offers["milan"]) == many })
	if s.sellers < 5 {
		t.Errorf("%d offers of %d plans came in %d events", many, api.MaxPlans, s.sellers)
	}
}

func TestHostileCatalogTokens(t *testing.T) {
	w := newFixture(t)
	for _, token := range []string{"rome", "x.-1", "all.", strings.Repeat("x", 200)} {
		err := w.rome.WatchCatalog(context.Background(), "", token, func(api.WatchEvent) error { return errEnough })
		if api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%.20q: %v", token, err)
		}
	}
}
