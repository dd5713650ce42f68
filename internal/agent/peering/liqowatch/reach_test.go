package liqowatch

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

// loopback also allows the addresses of this machine.
func loopback() *peeraddress.Checker {
	return peeraddress.New(peeraddress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

func testWatch(addresses *peeraddress.Checker, gateway network.Gateway) *Watch {
	return newWatch(Options{Addresses: addresses, Gateway: gateway,
		Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)})
}

// A provider whose API server does not answer by TLS cannot be used. A card that names no address passes.
func TestReach(t *testing.T) {
	https, plain := httptest.NewTLSServer(nil), httptest.NewServer(nil)
	defer https.Close()
	defer plain.Close()
	gone := httptest.NewTLSServer(nil)
	gone.Close()
	for server, want := range map[string]api.Code{
		"":        "",
		https.URL: "",
		plain.URL: api.CodeUnreachable,
		"https://" + plain.Listener.Addr().String(): api.CodeUnreachable,
		gone.URL:             api.CodeUnreachable,
		"https://":           api.CodeUnreachable,
		"file:///etc/passwd": api.CodeUnreachable,
		"https://[::1":       api.CodeUnreachable,
	} {
		w := testWatch(loopback(), network.GatewayNone)
		for range 2 { // the second result is remembered
			err := w.CheckReach(t.Context(), &api.Card{Cluster: "milan",
				Properties: api.Properties{APIServer: server}}, api.Request{})
			if err == nil && want != "" || err != nil && api.CodeOf(err) != want {
				t.Errorf("%q: %v, want %q", server, err, want)
			}
		}
	}
}

// One connection that breaks makes no provider unreachable: the dial is repeated. A second one does.
func TestADialThatFailsOnce(t *testing.T) {
	for breaks, want := range map[int32]api.Code{1: "", 2: api.CodeUnreachable} {
		server := httptest.NewUnstartedServer(nil)
		lossy := &lossyListener{Listener: server.Listener}
		lossy.breaks.Store(breaks)
		server.Listener = lossy
		server.StartTLS()
		defer server.Close()
		w := testWatch(loopback(), network.GatewayNone)
		err := w.CheckReach(t.Context(), &api.Card{Cluster: "milan",
			Properties: api.Properties{APIServer: server.URL}}, api.Request{})
		if err == nil && want != "" || err != nil && api.CodeOf(err) != want {
			t.Errorf("%d connections break: %v, want %q", breaks, err, want)
		}
	}
}

// lossyListener breaks some connections before a handshake.
type lossyListener struct {
	net.Listener
	breaks atomic.Int32 // how many more
}

func (l *lossyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.breaks.Add(-1) < 0 {
			return conn, err
		}
		_ = conn.Close()
	}
}

// An API server behind a network is not dialled, and the request must ask for that network.
func TestReachThroughTheNetwork(t *testing.T) {
	card := &api.Card{Cluster: "milan", Properties: api.Properties{
		APIServer: "https://127.0.0.1:1", APIServerAccess: api.APIServerNetwork, Network: api.NetworkWireGuard, Gateway: true,
	}}
	w := testWatch(loopback(), network.GatewayOutbound)
	err := w.CheckReach(t.Context(), card, api.Request{Network: api.NetworkWireGuard})
	if dialled := w.dials.Keys(); err != nil || len(dialled) > 0 {
		t.Errorf("%v, %d dialled", err, len(dialled))
	}
	if err := w.CheckReach(t.Context(), card, api.Request{}); api.CodeOf(err) != api.CodeNoNetwork {
		t.Errorf("without a network: %v", err)
	}
	card.Properties.Network = "" // its agent's --network-gateway takes no part
	if err := w.CheckReach(t.Context(), card,
		api.Request{Network: api.NetworkWireGuard}); api.CodeOf(err) != api.CodeNoNetwork {
		t.Errorf("where it has none: %v", err)
	}
}

// The card has the protocol of a Liqo that can be used, line by line. It leaves out that of Liqo 1.2, unless the version
// is unknown: former releases refuse a card that has the field.
func TestTheCardHasTheProtocol(t *testing.T) {
	w := testWatch(loopback(), network.GatewayNone)
	another := append(slices.Clone(liqoprotocol.Default), "Tenant authentication.liqo.io/v1")
	for _, c := range []struct {
		version        string
		protocol, want liqoprotocol.Protocol
	}{
		{"v1.2.0", liqoprotocol.Default, nil}, {"v1.3.0", liqoprotocol.Default, nil}, {"v1.3.0", another, another},
		{"", liqoprotocol.Default, liqoprotocol.Default}, {"", nil, nil},
	} {
		w.known.Version, w.known.protocol = c.version, strings.Join(c.protocol, "\n")
		var p api.Properties
		if w.FillCard(&p, nil); !slices.Equal(p.LiqoProtocol, c.want) {
			t.Errorf("the card of Liqo %q has %q, want %q", c.version, p.LiqoProtocol, c.want)
		}
		if got := liqoprotocol.Of(&p); !slices.Equal(got, c.protocol) {
			t.Errorf("the card of Liqo %q counts as %q, want %q", c.version, got, c.protocol)
		}
	}
}

// The card does not name a Liqo that lacks a module, because others cannot peer with it.
func TestTheCardOfALiqoWithoutAModule(t *testing.T) {
	for off, want := range map[string]string{"": "v1.2.0", "offloading": ""} {
		var p api.Properties
		w := testWatch(loopback(), network.GatewayNone)
		w.known.Installation = liqo.Installation{Version: "v1.2.0", APIServer: "https://milan", Off: off}
		w.known.support = liqo.Judge(w.known.Installation, liqo.Served{})
		w.FillCard(&p, nil)
		if p.Liqo != want || p.APIServer != "https://milan" {
			t.Errorf("%q: the card says %q, %q", off, p.Liqo, p.APIServer)
		}
	}
}

// Whether two clusters can have a network follows from the provider's card, and from whose gateway
// can be dialled.
func TestAgreeNetwork(t *testing.T) {
	for _, c := range []struct {
		asked   api.NetworkMode
		theirs  api.Properties
		own     network.Gateway
		refused bool
	}{
		{"", api.Properties{}, network.GatewayNone, false},
		{api.NetworkNone, api.Properties{}, network.GatewayNone, false},
		{api.NetworkWireGuard, api.Properties{}, network.GatewayLoadBalancer, true},
		{api.NetworkWireGuard, api.Properties{Network: api.NetworkWireGuard}, network.GatewayOutbound, true},
		{api.NetworkWireGuard, api.Properties{Network: api.NetworkWireGuard}, network.GatewayNodePort, false},
		{api.NetworkWireGuard, api.Properties{Network: api.NetworkWireGuard, Gateway: true}, network.GatewayOutbound, false},
	} {
		err := checkNetwork(c.own, api.Request{Network: c.asked}, &api.Card{Cluster: "milan", Properties: c.theirs})
		if (err != nil) != c.refused || err != nil && api.CodeOf(err) != api.CodeNoNetwork {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An API server on this machine is not dialled, neither by its address nor by a name of it.
// The refusal does not disclose whether anything listens there.
func TestACardNamesAnAddressOfOurs(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(nil)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w := testWatch(peeraddress.New(peeraddress.Options{}), network.GatewayNone)
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		url := "https://" + net.JoinHostPort(strings.Trim(host, "[]"), port)
		err := w.CheckReach(t.Context(), &api.Card{Cluster: "milan",
			Properties: api.Properties{APIServer: url}}, api.Request{})
		if api.CodeOf(err) != api.CodeUnreachable || !strings.Contains(err.Error(), "another cluster names it") {
			t.Errorf("%s: %v", url, err)
		}
		if err := w.options.Addresses.CheckURL(t.Context(), url); api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("what Liqo would call, %s: %v", url, err)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A provider whose card names one address after another is dialled a few times. The errors do not disclose
// whether anything listens there.
func TestACardScansPorts(t *testing.T) {
	w := testWatch(loopback(), network.GatewayNone)
	plain := httptest.NewServer(nil)
	defer plain.Close()
	said := map[string]bool{}
	at := func(url string) string {
		err := w.CheckReach(context.Background(), &api.Card{Cluster: "milan",
			Properties: api.Properties{APIServer: url}}, api.Request{})
		if api.CodeOf(err) != api.CodeUnreachable {
			t.Fatalf("%s: %v", url, err)
		}
		return strings.ReplaceAll(err.Error(), url, "")
	}
	said[at("https://"+plain.Listener.Addr().String())] = true
	said[at("https://127.0.0.1:1")] = true
	if len(said) != 1 {
		t.Errorf("it says what is there: %v", said)
	}
	for port := 2; len(w.dials.Keys()) < dialsAtOnce+5; port++ {
		before := len(w.dials.Keys())
		if at("https://" + net.JoinHostPort("127.0.0.1", string(rune('0'+port%10))) +
			"/" + strings.Repeat("x", port)); len(w.dials.Keys()) == before {
			return
		}
	}
	t.Errorf("%d addresses are dialled", len(w.dials.Keys()))
}
