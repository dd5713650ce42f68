package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// Who calls too often is told to wait; the others do not notice.
func TestRateLimit(t *testing.T) {
	const rate = 200 // a member's; strangers have 2, with a burst of 4
	w := &town{Federation: servertest.Start(t, servertest.Options{Rate: rate})}
	rome, oslo := w.Join("rome"), w.Join("oslo")
	get := func(by *http.Client) (int, string) {
		status, header, _ := w.call(t, call{by: by, method: "GET", path: "/reservations"})
		return status, header.Get("Retry-After")
	}
	refused := false
	for range 20 * rate { // far more than the burst, however slow the machine
		status, after := get(rome.HTTP)
		if refused = status == http.StatusTooManyRequests; refused {
			if after == "" {
				t.Error("it does not say when to come back")
			}
			break
		}
	}
	if !refused {
		t.Fatal("nobody was refused")
	}
	if status, _ := get(oslo.HTTP); status != http.StatusOK {
		t.Errorf("another member gets %d", status)
	}
	nobody := w.StrangerHTTP()
	for i := range 10 {
		status, _, _ := w.call(t, call{by: nobody, method: "POST", path: "/join", body: `{"tokenID":"a","secret":"b","key":"c","request":"d"}`})
		if status == api.Codes[api.CodeTooManyRequests].Status {
			return
		}
		if i == 9 {
			t.Error("strangers may guess tokens as often as they like")
		}
	}
}

// A large body costs as much as many calls: who sends only such ones may send far fewer.
func TestLargeBodiesCostMore(t *testing.T) {
	const rate, large = 200, 60 << 10
	w := &town{Federation: servertest.Start(t, servertest.Options{Rate: rate})}
	rome := w.Join("rome")
	body := `{"request":{"where":"` + strings.Repeat("x", large) + `"}}`
	begin, allowed := time.Now(), 0
	for range 100 {
		if status, _, _ := w.call(t, call{by: rome.HTTP, method: "POST", path: "/evaluations", body: body}); status != http.StatusTooManyRequests {
			allowed++
		}
	}
	if most := (2*rate+int(rate*time.Since(begin).Seconds()))/(large>>11) + 2; allowed > most || allowed < 5 {
		t.Errorf("%d of 100 large calls are allowed, want %d at most", allowed, most)
	}
}
