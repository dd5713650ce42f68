package tlsid_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// clock stands still until it is moved.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB, dir string, c *clock) *tlsid.Authority {
	t.Helper()
	a, err := tlsid.Open(dir, []string{"127.0.0.1", "broker.test"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// member is a cluster with a key and a certificate.
type member struct{ key, cert []byte }

func newMember(t testing.TB, a *tlsid.Authority, cluster string) member {
	t.Helper()
	key := must(tlsid.NewKey())(t)
	cert := must(a.SignMember(must(tlsid.NewCSR(key))(t), cluster))(t)
	return member{key, cert}
}

func (m member) client(t testing.TB, a *tlsid.Authority, c *clock) *tlsid.Client {
	t.Helper()
	return must(tlsid.NewClient(m.key, m.cert, a.CAPEM(), c.now))(t)
}

// serve answers each request over the authority's TLS with the name of the caller, or why it has none.
func serve(t testing.TB, a *tlsid.Authority) (address string) {
	t.Helper()
	return serveWith(t, a.ServerConfig(), func(w http.ResponseWriter, r *http.Request) {
		peer, err := a.Peer(r.TLS)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "%s %s", peer.Role, peer.Name)
	})
}

func serveWith(t testing.TB, config *tls.Config, handler http.HandlerFunc) (address string) {
	t.Helper()
	listener := must(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return listener.Addr().String()
}

// caller keeps its connections open between calls, as an agent does.
func caller(t testing.TB, config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func call(t testing.TB, client *http.Client, address string) (string, error) {
	t.Helper()
	request := must(http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+address, nil))(t)
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	return string(must(io.ReadAll(response.Body))(t)), nil
}

func parse(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	return must(x509.ParseCertificate(block.Bytes))(t)
}

func read(t testing.TB, parts ...string) []byte {
	t.Helper()
	return must(os.ReadFile(filepath.Join(parts...)))(t)
}

func write(t testing.TB, text []byte, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(parts...), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
