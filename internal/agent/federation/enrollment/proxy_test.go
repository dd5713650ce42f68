package enrollment

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// startProxy starts a proxy that leads each connection to one address, however it is named. It returns its URL.
func startProxy(t *testing.T, address string) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only tunnels", http.StatusMethodNotAllowed)
			return
		}
		to, err := net.Dial("tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		go func() { defer to.Close(); _, _ = io.Copy(to, read) }() // the server may have read the first bytes
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Where a broker is reached through a proxy only, a cluster joins it, calls it and renews its certificate there.
func TestThroughAProxy(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	token, err := f.Operator.CreateToken(t.Context(), "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	proxy := startProxy(t, strings.TrimPrefix(f.URL, "https://"))
	proxy.User = url.UserPassword("rome", "secret")
	const broker = "https://127.0.0.1:1" // nobody listens there
	m, err := New(t.Context(), Options{Cluster: "rome", Token: token.Token, BrokerURL: broker, Store: store.InDir(t.TempDir()),
		Log: slog.New(slog.DiscardHandler), Proxy: http.ProxyURL(proxy)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	if err := m.Admission().Err; err != nil {
		t.Fatal(err)
	}
	if _, err := m.Client().Reservations(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.renewOnce(t.Context()); err != nil {
		t.Error(err)
	}
	if through := m.ProxyTo(broker); through != "http://rome:xxxxx@"+proxy.Host {
		t.Errorf("it names the proxy %q", through)
	}
}
