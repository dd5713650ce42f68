// Package servertest runs a broker's server for tests: on a real listener on loopback, with a real CA,
// real certificates and real cluster keys, over a market in memory.
//
//	f := servertest.Start(t, servertest.Options{})
//	rome, milan := f.Join("rome"), f.Join("milan")
//	milan.Advertise("8")
//	r, err := rome.Reserve(ctx, "key", transporttest.Request("4"))
//	_, err = rome.Confirm(ctx, r.ID, rome.Assign(r))
//
// Nothing of it is simulated but the disk and, with a clock, time.
package servertest

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/queue"
	"github.com/bourse-dev/bourse/internal/server"
)

// Options say what is served.
type Options struct {
	// Rate is how many calls a second one identity may make; 0 is more than a test makes.
	Rate float64
	// Bounds are what one caller may hold open, there and at the listener.
	Bounds server.Bounds
	// Caps are what every consumer may have; none is no bound.
	Caps market.Caps
	// Clock is the exchange's; nil is the machine's.
	Clock exchange.Clock
	// Journal keeps the market; nil is a new one in memory.
	Journal journal.Journal
	// Now is the time of certificates; nil is the machine's.
	Now func() time.Time
	// Before, if set, stands before how members are served, until its context ends.
	Before func(context.Context, *Federation, http.Handler) http.Handler
}

// Federation is a broker that serves until its test ends.
type Federation struct {
	// URL is where members reach it.
	URL       string
	Exchange  *exchange.Exchange
	Server    *server.Server
	Authority *tlsid.Authority
	// CADir holds the CA's certificate and key, for tests that issue what a broker never would.
	CADir string
	// Operator acts with the certificate of an operator; OperatorHTTP shows it.
	Operator     *client.Client
	OperatorHTTP *http.Client

	t     testing.TB
	queue *queue.Queue
}

// Silent is a log that nobody reads.
func Silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Start starts a broker's server.
func Start(t testing.TB, o Options) *Federation {
	t.Helper()
	if o.Rate == 0 {
		o.Rate = 1e6
	}
	if o.Journal == nil {
		o.Journal = memorytest.New()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	dir := t.TempDir()
	f := &Federation{t: t, CADir: filepath.Join(dir, "ca")}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	f.URL = "https://" + listener.Addr().String()
	f.Authority = must(tlsid.Open(f.CADir, []string{"127.0.0.1"}, o.Now))(t)
	f.Exchange = must(exchange.Open(context.Background(), o.Journal, exchange.Options{
		Clock: o.Clock, Log: Silent(), TickEvery: 2 * time.Millisecond,
	}))(t)
	engine := match.New()
	f.queue = queue.New(f.Exchange, engine, Silent())
	f.Server = server.New(server.Options{
		Exchange: f.Exchange, Engine: engine, Queue: f.queue, Authority: f.Authority, URL: f.URL, Rate: o.Rate, Caps: o.Caps, Bounds: o.Bounds, Log: Silent(),
	})
	config := f.Authority.ServerConfig()
	config.NextProtos = []string{"http/1.1"}
	f.run(listener, config, o)
	f.asOperator(filepath.Join(dir, "operator"))
	return f
}

// run serves until the test ends; the market outlives the listener, as in a broker.
func (f *Federation) run(l net.Listener, config *tls.Config, o Options) {
	serving, stopServing := context.WithCancel(context.Background())
	trading, stopTrading := context.WithCancel(context.Background())
	members := f.Server.Members()
	if o.Before != nil {
		members = o.Before(serving, f, members)
	}
	served, traded, waited := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { traded <- f.Exchange.Run(trading) }()
	go func() { waited <- f.queue.Run(serving) }()
	go func() { served <- server.ServeTLS(serving, l, config, members, o.Bounds) }()
	f.t.Cleanup(func() {
		f.Exchange.EndWatches()
		stopServing()
		if err := <-served; err != nil {
			f.t.Errorf("serve: %v", err)
		}
		if err := <-waited; err != nil {
			f.t.Errorf("queue: %v", err)
		}
		stopTrading()
		if err := <-traded; err != nil {
			f.t.Errorf("exchange: %v", err)
		}
	})
}

func (f *Federation) asOperator(dir string) {
	if err := f.Authority.WriteOperator(dir, "admin"); err != nil {
		f.t.Fatal(err)
	}
	certificate := must(tlsid.OpenClient(dir, time.Now, Silent()))(f.t)
	f.OperatorHTTP = f.HTTP(certificate.Config())
	f.Operator = client.New(f.URL, f.OperatorHTTP)
}

// HTTP makes an HTTP client over a TLS configuration; it is closed with the test.
func (f *Federation) HTTP(config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 64}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Dial opens a TLS connection as a client does, with little memory for what it does not read. It is
// closed with the test.
func (f *Federation) Dial(by *http.Client) net.Conn {
	f.t.Helper()
	raw := must(net.Dial("tcp", strings.TrimPrefix(f.URL, "https://")))(f.t)
	f.t.Cleanup(func() { raw.Close() })
	_ = raw.(*net.TCPConn).SetReadBuffer(4 << 10)
	config := by.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "127.0.0.1"
	return tls.Client(raw, config)
}

// must turns an error of a preparation into the end of the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
