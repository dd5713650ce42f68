package liqobroker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/compat/liqobroker"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// An unknown cluster is neither enabled nor disabled: a mistyped ID begins no choice, which would name nobody. What
// was enabled can be disabled when it is hidden.
func TestOnlyKnownClustersAreToggled(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Before: orchestrator})
	rome, milan, secret := f.Join("rome"), f.Join("milan"), f.Join("secret")
	shows := func(m *servertest.Member, to string) {
		t.Helper()
		next := m.Measurement("8")
		next.Terms.VisibleTo.Clusters = []string{to}
		if err := m.PutAdvertisement(t.Context(), m.ID, next); err != nil {
			t.Fatal(err)
		}
	}
	shows(milan, "rome")
	shows(secret, "oslo")
	toggles := func(query string, want int) {
		t.Helper()
		if status, _ := call(t, f, rome, http.MethodPost, "?"+query); status != want {
			t.Errorf("%s: %d, want %d", query, status, want)
		}
	}
	for _, unknown := range []string{"nobody", "secret", "rome"} {
		toggles("enable=false&id="+unknown, http.StatusNotFound)
		toggles("enable=true&id="+unknown, http.StatusNotFound)
	}
	if _, chosen := call(t, f, rome, http.MethodGet, ""); chosen != `{"providers":null}` {
		t.Errorf("a choice of unknown clusters: %s", chosen)
	}
	toggles("enable=true&id=milan", http.StatusOK)
	shows(milan, "oslo")
	toggles("enable=false&id=milan", http.StatusOK)
	toggles("enable=false&id=milan", http.StatusNotFound)
	if _, chosen := call(t, f, rome, http.MethodGet, ""); chosen != `{"providers":[]}` {
		t.Errorf("after milan is disabled: %s", chosen)
	}
}

func orchestrator(_ context.Context, f *servertest.Federation, members http.Handler) http.Handler {
	liqobroker.Serve(liqobroker.Options{Server: f.Server, Orchestrator: true})
	return members
}

// call calls the toggle, and returns its status and answer.
func call(t *testing.T, f *servertest.Federation, by *servertest.Member, method, query string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, f.URL+"/api/toggle"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := by.HTTP.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

// A member that chose many providers changes its choice less often: each change writes all of them.
func TestALongChoiceCountsAsCalls(t *testing.T) {
	const rate, chosen = 500, 900
	f := servertest.Start(t, servertest.Options{Rate: rate, Before: orchestrator})
	rome := f.Join("rome")
	bytes := 0
	for i := range chosen {
		provider := fmt.Sprintf("%s-%d", strings.Repeat("p", 50), i)
		bytes += len(provider)
		if _, err := f.Exchange.Do(t.Context(), market.Enable{Consumer: "rome", Provider: provider, Enabled: true}); err != nil {
			t.Fatal(err)
		}
	}
	disables := func(i int) int {
		t.Helper()
		status, _ := call(t, f, rome, http.MethodPost, fmt.Sprintf("?enable=false&id=%s-%d", strings.Repeat("p", 50), i))
		return status
	}
	begin, changed := time.Now(), 0
	for ; changed < chosen/2; changed++ {
		status := disables(changed)
		if status == http.StatusTooManyRequests {
			break
		}
		if status != http.StatusOK {
			t.Fatalf("change %d: %d", changed, status)
		}
	}
	each := bytes / 2 >> 11 // at least half of the list remains
	if most := 2*rate/each + int(time.Since(begin).Seconds()*rate/float64(each)) + 2; changed < 2 || changed > most {
		t.Errorf("a choice of %d bytes was changed %d times, want %d at most", bytes, changed, most)
	}
}
