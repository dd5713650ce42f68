package distributedcatalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The connector refuses a subscription too many as it answers all errors: as JSON in a text, with the remedy.
func TestTooManySubscriptionsOfAConnector(t *testing.T) {
	c := &connector{subscribers: subscribers{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}}
	for range maxSubscribers {
		c.subscribers.enter("the people of this cluster")
	}
	w := httptest.NewRecorder()
	c.subscribe(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/subscribe", nil))
	var text string
	if err := json.Unmarshal(w.Body.Bytes(), &text); err != nil || w.Code != http.StatusTooManyRequests {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	var why failure
	err := json.Unmarshal([]byte(text), &why)
	if err != nil || why.Remedy != "close one" || why.Code != "TooManyRequests" {
		t.Errorf("%s: %v", text, err)
	}
}

// The subscribers of one cluster read the catalog together, and none keeps a copy of it.
func TestSubscribersShareTheCatalog(t *testing.T) {
	const size, every = 2 << 20, 100 * time.Millisecond
	var looks atomic.Int64
	large := func() []Catalog {
		return []Catalog{{Provider: Provider{ClusterID: "milan"}, Offers: []Offer{{Description: strings.Repeat("a", size)}}}}
	}
	s := &subscribers{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, "rome", subscription{
			read: func() ([]Catalog, bool, error) { return large(), false, nil }, quiet: true, every: every,
			look:  func(context.Context, bool) ([]Catalog, error) { looks.Add(1); return large(), nil },
			write: func(payload any) any { return payload },
		})
	}))
	defer server.Close()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, begun := heap(), time.Now()
	for range maxSubscribers {
		c, _, err := websocket.Dial(t.Context(), server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.CloseNow() }()
	}
	for looks.Load() < 5 {
		time.Sleep(every / 10)
	}
	if read, allowed := looks.Load(), int64(2+time.Since(begun)/(every/2)); read > allowed {
		t.Errorf("the catalog is read %d times, want at most %d", read, allowed)
	}
	// A message that is just written is in memory, too. What subscribers keep is there at each look.
	most, deadline := int64(maxSubscribers/2*size), time.Now().Add(time.Minute)
	for more := heap() - before; more > most; more = heap() - before {
		if time.Now().After(deadline) {
			t.Fatalf("%d subscribers keep %d MiB of a catalog of %d", maxSubscribers, more>>20, size>>20)
		}
		time.Sleep(every / 3)
	}
}
