package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/test/raced"
)

// Who calls too often is told to wait; the others do not notice.
func TestRateLimit(t *testing.T) {
	const rate = 200 // a member's; strangers have 2, with a burst of 4
	w := &fixture{Federation: servertest.Start(t, servertest.Options{Rate: rate})}
	rome, oslo := w.Join("rome"), w.Join("oslo")
	large := `{"request":{"where":"` + strings.Repeat("x", 60<<10) + `"}}` // counts as 30 calls: few of them suffice
	refused := false
	for range rate {
		status, header, _ := w.call(t, call{by: rome.HTTP, method: "POST", path: "/evaluations", body: large})
		if refused = status == http.StatusTooManyRequests; refused {
			if header.Get("Retry-After") == "" {
				t.Error("it does not say when to come back")
			}
			break
		}
	}
	if !refused {
		t.Fatal("nobody was refused")
	}
	if status, _, _ := w.call(t, call{by: oslo.HTTP, method: "GET", path: "/reservations"}); status != http.StatusOK {
		t.Errorf("another member gets %d", status)
	}
	nobody, guess := w.StrangerHTTP(), submission(t, "vienna", w.guess(t))
	for begin, answered := time.Now(), 0; ; answered++ {
		status, _, _ := w.call(t, call{by: nobody, method: "POST", path: "/join", body: guess})
		if status == api.Codes[api.CodeTooManyRequests].Status {
			return
		}
		if most := 5 + int(2*time.Since(begin).Seconds()); answered > most {
			t.Fatalf("strangers may guess tokens %d times in %s", answered, time.Since(begin))
		}
	}
}

// A large body costs as much as many calls: who sends only such ones may send far fewer.
func TestLargeBodiesCostMore(t *testing.T) {
	const rate, large = 200, 60 << 10
	w := &fixture{Federation: servertest.Start(t, servertest.Options{Rate: rate})}
	rome := w.Join("rome")
	body := `{"request":{"where":"` + strings.Repeat("x", large) + `"}}`
	begin, allowed := time.Now(), 0
	for range 100 {
		if status, _, _ := w.call(t, call{by: rome.HTTP, method: "POST",
			path: "/evaluations", body: body}); status != http.StatusTooManyRequests {
			allowed++
		}
	}
	if most := (2*rate+int(rate*time.Since(begin).Seconds()))/(large>>11) + 2; allowed > most || allowed < 5 {
		t.Errorf("%d of 100 large calls are allowed, want %d at most", allowed, most)
	}
}

// What a call has the market look through counts as further calls: a member that lists much may
// change it less often. A lease that is renewed without news is one call.
func TestWorkCountsAsCalls(t *testing.T) {
	const rate, listed = 500, 40_000
	w := &fixture{Federation: servertest.Start(t, servertest.Options{Rate: rate})}
	oslo := w.Join("oslo")
	account := api.AccountUse{Commitments: map[string]api.Resources{}}
	for i := range listed {
		account.Commitments[fmt.Sprint("r", i)] = api.Resources{}
	}
	whole := oslo.Measurement("8", map[string]api.AccountUse{"rome": account})
	if err := oslo.PutAdvertisement(t.Context(), "oslo", whole); err != nil {
		t.Fatal(err)
	}
	base := whole.Sequence
	patch := func(pools map[string]*api.PoolDelta) error {
		next := api.Sequence{Incarnation: base.Incarnation, Number: base.Number + 1}
		err := oslo.PatchAdvertisement(t.Context(), "oslo", api.MeasurementDelta{Base: base, Sequence: next, Pools: pools})
		if err == nil {
			base = next
		}
		return err
	}
	for n := range 100 {
		if err := patch(nil); err != nil {
			t.Fatalf("renewal %d: %v", n, err)
		}
	}
	begin, changed := time.Now(), 0
	for ; changed < rate; changed++ {
		err := patch(map[string]*api.PoolDelta{api.GeneralPool: {Accounts: map[string]*api.AccountUse{fmt.Sprint("c",
			changed%2): {}}}})
		if api.CodeOf(err) == api.CodeTooManyRequests {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if most := 2*rate/(listed/1000) + int(time.Since(begin).Seconds()*rate/(listed/1000)) + 2; changed < 2 ||
		changed > most {
		t.Errorf("%d changes of %d commitments went through, want %d at most", changed, listed, most)
	}
}

// A card counts as as many calls as the market's look at who is to hear of it.
func TestACardCountsAsCalls(t *testing.T) {
	const rate, each = 500, 20
	f := servertest.Start(t, servertest.Options{Rate: rate})
	oslo := f.Join("oslo")
	begin, put := time.Now(), 0
	for ; put < rate; put++ {
		err := oslo.PutCard(t.Context(), "oslo", oslo.Card(api.Properties{}))
		if api.CodeOf(err) == api.CodeTooManyRequests {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if most := 2*rate/each + int(time.Since(begin).Seconds()*rate/each) + 2; put < 2 || put > most {
		t.Errorf("%d cards went through, want %d at most", put, most)
	}
}

// A search of the catalog looks through all members, which count in the same way. A search of one
// seller is one call.
func TestSearchesCountAsCalls(t *testing.T) {
	raced.Skip(t)
	const rate, members = 500, 10_000
	f := servertest.Start(t, servertest.Options{Rate: rate})
	oslo := f.Join("oslo")
	for i := range members {
		if _, err := f.Exchange.Do(t.Context(), market.Enroll{Cluster: fmt.Sprint("cluster-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	search := func(q api.CatalogQuery) error {
		_, err := oslo.Catalog(t.Context(), q)
		return err
	}
	for n := range 100 {
		if err := search(api.CatalogQuery{Seller: "oslo"}); err != nil {
			t.Fatalf("search %d of one seller: %v", n, err)
		}
	}
	begin, searched := time.Now(), 0
	for ; searched < rate; searched++ {
		err := search(api.CatalogQuery{})
		if api.CodeOf(err) == api.CodeTooManyRequests {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if most := 2*rate/(members/1000) + int(time.Since(begin).Seconds()*rate/(members/1000)) + 2; searched < 2 ||
		searched > most {
		t.Errorf("%d searches among %d members went through, want %d at most", searched, members, most)
	}
}
