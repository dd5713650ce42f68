package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// At a connector a call that is under way, and a connection that is open, end when the caller's key is succeeded.
func TestAConnectorEndsCallsByAFormerKey(t *testing.T) {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	log := slog.New(slog.DiscardHandler)
	open := func() *exchange.Exchange { return exchangetest.Open(t, nil, exchange.Options{Self: "rome"}) }
	s := &shop{cluster: "rome", key: rome.Key, ledger: open(), market: open(), log: log}
	meet := func(p *transporttest.Party) {
		t.Helper()
		if _, _, err := (trust.Demand{}).Meet(t.Context(), s.ledger, p.Card(api.Properties{}), p.ID); err != nil {
			t.Fatal(err)
		}
	}
	meet(milan)
	s.server = server.New(server.Options{Exchange: s.market, Engine: match.New(), Bounds: server.Bounds{Quiet: 20 * time.Millisecond}, Log: log})
	config, err := s.key.ServerTLS("rome", s.known(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- server.ServeTLS(serving, l, config, s.server.For(s.caller(serving)), server.Bounds{})
	}()
	t.Cleanup(func() {
		s.market.EndWatches()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	own := func(string) []clusterkey.PublicKey { return []clusterkey.PublicKey{rome.Key.Public()} }
	call, err := milan.Key.ClientTLS("milan", "rome", own)
	if err != nil {
		t.Fatal(err)
	}
	carrier := &http.Transport{TLSClientConfig: call}
	defer carrier.CloseIdleConnections()
	c := client.New("https://"+l.Addr().String(), &http.Client{Transport: carrier})
	begun, watched := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		watched <- c.Watch(t.Context(), "", func(api.WatchEvent) error { begun <- struct{}{}; return nil })
	}()
	<-begun
	if _, err := c.Clusters(t.Context()); err != nil { // its connection stays open
		t.Fatal(err)
	}
	milan.Rotate()
	meet(milan)
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
