package distributedcatalog

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A reader that does not read loses its connection in the time that it has for a frame, and nothing
// is kept for it meanwhile.
func TestSlowSubscriber(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a reader's time to end")
	}
	s := &subscribers{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
	ended, looks := make(chan time.Duration, 1), 0
	huge := func() []Catalog {
		looks++
		return []Catalog{{Provider: Provider{ClusterID: "milan"},
			Offers: []Offer{{Description: strings.Repeat("a", 16<<20) + strings.Repeat("b", looks)}}}}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		s.serve(w, r, "rome", subscription{
			every: lookSoon,
			look:  func(context.Context, bool) ([]Catalog, error) { return huge(), nil },
			write: func(payload any) any { return payload },
		})
		ended <- time.Since(begun)
	}))
	defer server.Close()
	small := &net.Dialer{}
	c, _, err := websocket.Dial(t.Context(), server.URL,
		&websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := small.DialContext(ctx, network, address)
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetReadBuffer(4 << 10)
				}
				return conn, err
			},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	select {
	case took := <-ended:
		if took > lookSoon+writeWait+10*time.Second || looks > 1 {
			t.Errorf("it was kept for %s, and looked for %d times", took, looks)
		}
	case <-time.After(time.Minute):
		t.Error("it is still kept")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		t.Errorf("still open: %v", s.open)
	}
}
