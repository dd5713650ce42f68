package liqobroker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/compat/liqobroker"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// A member that chose many providers changes its choice less often: each change writes all of them.
func TestALongChoiceCountsAsCalls(t *testing.T) {
	const rate, chosen = 500, 900
	f := servertest.Start(t, servertest.Options{Rate: rate,
		Before: func(_ context.Context, f *servertest.Federation, members http.Handler) http.Handler {
			liqobroker.Serve(liqobroker.Options{Server: f.Server, Orchestrator: true})
			return members
		}})
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
		url := fmt.Sprintf("%s/api/toggle?enable=false&id=%s-%d", f.URL, strings.Repeat("p", 50), i)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := rome.HTTP.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
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
