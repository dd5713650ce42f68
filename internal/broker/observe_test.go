package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// The metrics are named and typed as Prometheus' own linter wants, and an empty market is balanced.
func TestMetrics(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x, err := exchange.Open(ctx, memorytest.New(), exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	counted := &metrics{market: x}
	if _, err := counted.audit(ctx); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.CollectAndLint(counted)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	want := "# HELP bourse_market_imbalance Pools whose reserved amount differs from the sum over all reservations, at the last audit. Must be 0.\n# TYPE bourse_market_imbalance gauge\nbourse_market_imbalance 0\n"
	if err := testutil.CollectAndCompare(counted, strings.NewReader(want), "bourse_market_imbalance"); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Probes and metrics do not wait for a busy market: they show the last known counts. A market is not alive
// if it does not finish a step, or has ended.
func TestProbesDoNotWaitForTheMarket(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x, err := exchange.Open(ctx, memorytest.New(), exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	counted := &metrics{market: x}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(counted)
	if _, err := counted.audit(ctx); err != nil {
		t.Fatal(err)
	}
	scrape := func() string {
		answer := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if answer.Code != http.StatusOK {
			t.Errorf("a scrape is answered as %d: %s", answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
	probe := func(most time.Duration) int {
		answer := httptest.NewRecorder()
		alive(x, most)(answer, nil)
		return answer.Code
	}
	before := scrape()
	for end := time.Now().Add(time.Minute); !strings.Contains(before, "bourse_reservations{"); before = scrape() {
		if time.Now().After(end) { // a scrape waits for the counts only for a moment
			t.Fatalf("no counts of an idle market: %s", before)
		}
	}

	release, busy := make(chan struct{}), make(chan struct{})
	go func() { _ = x.Read(context.Background(), func(*market.State) { close(busy); <-release }) }()
	<-busy
	for x.Busy() < 300*time.Millisecond { // at which the market would have looked at the time if it could
		time.Sleep(10 * time.Millisecond)
	}
	counted.asked = time.Time{}
	during := scrape() // which would not end if it waited: the market goes on after it
	for _, name := range []string{"bourse_reservations{", "bourse_market_imbalance 0",
		"bourse_market_busy_seconds ", "bourse_journal_commits_total"} {
		if !strings.Contains(during, name) {
			t.Errorf("no %s in the metrics of a busy market: %s", name, during)
		}
	}
	if strings.Contains(during, "bourse_market_busy_seconds 0\n") {
		t.Errorf("a busy market is shown as idle: %s", during)
	}
	if len(before) < len(during)/2 {
		t.Errorf("before: %s", before)
	}
	if code := probe(longestStep); code != http.StatusOK {
		t.Errorf("a busy market is answered as %d", code)
	}
	if code := probe(100 * time.Millisecond); code != http.StatusServiceUnavailable {
		t.Errorf("a stuck market is answered as %d", code)
	}
	close(release)
	for probe(200*time.Millisecond) != http.StatusOK {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code := probe(time.Hour); code != http.StatusServiceUnavailable {
		t.Errorf("a market that has ended is answered as %d", code)
	}
}

// Probes at once do not disturb each other, and do not write more often than a trial counts.
func TestProbesAtOnce(t *testing.T) {
	d := &disk{dir: t.TempDir()}
	var all errgroup.Group
	for range 20 {
		all.Go(d.try)
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	if err := d.try(); err != nil {
		t.Errorf("within %s it is tried again: %v", trialLasts, err)
	}
	d.tried = time.Now().Add(-trialLasts)
	if err := d.try(); err == nil {
		t.Error("a folder that is gone takes files")
	}
}

// A broker whose disk takes nothing is not ready: it would end at its next commit.
func TestNotReadyWithoutADisk(t *testing.T) {
	x, err := exchange.Open(t.Context(), memorytest.New(), exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	dir := t.TempDir()
	probe := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		answerProbe(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody), x, &disk{dir: dir})
		return answer
	}
	if answer := probe(); answer.Code != http.StatusOK {
		t.Errorf("with a disk: %d %s", answer.Code, answer.Body)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, trialFile, "full"), 0o700); err != nil { // what cannot be written or removed
		t.Fatal(err)
	}
	if answer := probe(); answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "disk") {
		t.Errorf("without: %d %s", answer.Code, answer.Body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// --url goes into tokens, whatever the port of the listener, and the certificate has its host.
func TestURL(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4zero, Port: 7443}
	o := Options{Dir: t.TempDir(), Listen: ":7443", URL: "https://broker.example.org:443", Hosts: []string{"10.0.0.1"}}
	authority, url, err := identify(o, address)
	if err != nil || url != o.URL {
		t.Fatal(url, err)
	}
	shown, err := authority.ServerConfig().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"broker.example.org", "10.0.0.1"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	o.URL = "https://broker.example.org/bourse"
	if _, _, err := identify(o, address); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a URL with a path: %v", err)
	}
}
