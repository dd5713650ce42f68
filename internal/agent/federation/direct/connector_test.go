package direct

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// served is rome's connector while it serves.
type served struct {
	*Connector
	t    *testing.T
	rome *transporttest.Party
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, rome: transporttest.NewParty(t, "rome")}
	ctx, stop := context.WithCancel(context.Background())
	var err error
	s.Connector, err = NewConnector(ctx, ConnectorOptions{
		Cluster: "rome", Key: s.rome.Key, Ledger: exchangetest.Open(t,
			nil, exchange.Options{Self: "rome"}), Journal: memorytest.New(),
		Listen: "127.0.0.1:0", URL: "https://rome", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.server = server.New(server.Options{Exchange: s.market, Engine: match.New(),
		Bounds: server.Bounds{Quiet: 20 * time.Millisecond}, Log: s.Log})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// meet makes a cluster known to rome.
func (s *served) meet(p *transporttest.Party) {
	s.t.Helper()
	if _, _, err := (trust.Demand{}).Meet(s.t.Context(), s.Ledger, p.Card(api.Properties{}), p.ID); err != nil {
		s.t.Fatal(err)
	}
}

// client calls rome with the key that a cluster has now.
func (s *served) client(p *transporttest.Party) *client.Client {
	s.t.Helper()
	config, err := p.Key.ClientTLS(p.ID, "rome",
		func(string) identity.Fingerprint { return s.rome.Key.Public().Fingerprint() })
	if err != nil {
		s.t.Fatal(err)
	}
	carrier := &http.Transport{TLSClientConfig: config}
	s.t.Cleanup(carrier.CloseIdleConnections)
	return client.New("https://"+s.listener.Addr().String(), &http.Client{Transport: carrier})
}

// The own cluster and those whose key is known are members. Others are refused.
func TestWhoIsServed(t *testing.T) {
	s := serve(t)
	milan, oslo := transporttest.NewParty(t, "milan"), transporttest.NewParty(t, "oslo")
	s.meet(milan)
	if _, err := s.client(milan).Clusters(t.Context()); err != nil {
		t.Errorf("a known cluster: %v", err)
	}
	if _, err := s.client(oslo).Clusters(t.Context()); err == nil {
		t.Error("an unknown cluster is served")
	}
	if _, err := s.Broker().Clusters(t.Context()); err != nil {
		t.Errorf("the own cluster: %v", err)
	}
	for _, cluster := range []string{"rome", "milan", "oslo"} {
		l := s.Market().View().Listing(cluster)
		if is := l != nil && l.Active(); is != (cluster != "oslo") {
			t.Errorf("%s is a member: %v", cluster, is)
		}
	}
}

// A call that is under way, and a connection that is open, end when the caller's key is succeeded.
func TestCallsByAFormerKeyEnd(t *testing.T) {
	s, milan := serve(t), transporttest.NewParty(t, "milan")
	s.meet(milan)
	c := s.client(milan)
	begun, watched := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		watched <- c.Watch(t.Context(), "", func(api.WatchEvent) error { begun <- struct{}{}; return nil })
	}()
	<-begun
	if _, err := c.Clusters(t.Context()); err != nil { // its connection stays open
		t.Fatal(err)
	}
	milan.Rotate()
	s.meet(milan)
	select {
	case err := <-watched:
		if api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("the watch ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a watch by a former key goes on")
	}
	if _, err := c.Clusters(t.Context()); api.CodeOf(err) != api.CodeUnauthenticated {
		t.Errorf("a call by a former key on an open connection: %v", err)
	}
}

// Both addresses are given, or none.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		listen, url string
		valid       bool
	}{
		{"", "", true},
		{":7443", "https://rome.example.com:7443", true},
		{":7443", "https://rome.example.com/", true},
		{":7443", "", false},
		{"", "https://rome.example.com", false},
		{":7443", "http://rome.example.com", false},
		{":7443", "https://rome.example.com/path", false},
		{":7443", "https://user@rome.example.com", false},
	} {
		if err := CheckConnector(c.listen, c.url); (err == nil) != c.valid || err != nil && api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%q and %q: %v", c.listen, c.url, err)
		}
	}
	s := serve(t)
	o := s.ConnectorOptions
	o.Listen = s.listener.Addr().String()
	if _, err := NewConnector(t.Context(), o); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("at an address in use: %v", err)
	}
}
