// Package broker assembles a broker: the market's exchange on its journal, the REST server on a TLS
// listener for members and a socket for operators, and metrics and probes.
package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/queue"
	"github.com/bourse-dev/bourse/internal/server"
)

// DefaultReservations bounds the reservations of one consumer, DefaultPending those that wait for
// capacity at a time, and DefaultBytes, approximately, the broker's memory for them.
const (
	DefaultReservations = 10_000
	DefaultPending      = 100
	DefaultBytes        = 16 << 20
)

// Options configure a broker.
type Options struct {
	// Dir holds the journal, the CA and the operator's certificate. Required.
	Dir string
	// Journal defaults to an SQLite file in Dir. If several brokers share it, one of them leads.
	Journal journal.Journal
	// Listen is the address for members. Default "127.0.0.1:7443".
	Listen string
	// Hosts are the names and addresses with which members reach it. Its certificate holds them. Default: the
	// host of URL or of Listen.
	Hosts []string
	// URL goes into join tokens: https://HOST:PORT. Its port may differ from that of Listen. Its certificate holds
	// the host. Default: the first of Hosts with the port of Listen.
	URL string
	// TLSCertDir holds tls.crt, tls.key and ca.crt instead of the built-in CA.
	TLSCertDir string
	// Socket is the path for operators. Default DIR/broker.sock.
	Socket string
	// MetricsAddress serves /metrics, /livez and /readyz. Empty: nothing.
	MetricsAddress string
	// AuditEvery is the interval of the market's audit, whose result the metrics show. Default 1 minute.
	AuditEvery time.Duration
	// Rate is the number of calls per second that one member may make. Default 500.
	Rate float64
	// Caps bound what one consumer may have pending, held and reserved together. Default 10,000
	// reservations (100 of them waiting for capacity) with any priority, 16 MiB of memory, and no bound
	// on amounts.
	Caps market.Caps
	// Prototypes are the interfaces of the prototypes that it serves besides its own.
	Prototypes prototypes.Options
	// Clock defaults to the machine's.
	Clock exchange.Clock
	Log   *slog.Logger
	// Ready, if set, is called once it serves, with the URL for members.
	Ready func(url string)
}

// Run runs a broker until ctx ends, its journal fails or another broker takes over.
func Run(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Caps.Reservations = cmp.Or(o.Caps.Reservations, DefaultReservations)
	o.Caps.Pending = cmp.Or(o.Caps.Pending, DefaultPending)
	o.Caps.Bytes = cmp.Or(o.Caps.Bytes, DefaultBytes)
	if o.AuditEvery <= 0 {
		o.AuditEvery = DefaultAuditEvery
	}
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:7443")
	o.Socket = cmp.Or(o.Socket, filepath.Join(o.Dir, "broker.sock"))
	if err := o.Prototypes.Locate(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	if o.Journal == nil {
		o.Journal = sqlite.New(filepath.Join(o.Dir, JournalFile))
	}
	defer o.Journal.Close()
	defer CollectRarely()()
	if journal, ok := o.Journal.(contested); ok {
		return standBy(ctx, o, journal)
	}
	return lead(ctx, o)
}

// lead runs the only broker on its journal.
func lead(ctx context.Context, o Options) error {
	known := readCheckpoint(o.Dir)
	market, err := exchange.Open(ctx, o.Journal, exchange.Options{Clock: o.Clock, Log: o.Log})
	if err != nil {
		return err
	}
	if market.View().Revision > 0 {
		if err := demandCA(o); err != nil {
			return err
		}
	}
	listeners, err := openListeners(o)
	if err != nil {
		return err
	}
	defer listeners.close()
	authority, url, err := identify(o, listeners.members.Addr())
	if err != nil {
		return err
	}
	return serve(ctx, o, market, known, authority, url, listeners)
}

// demandCA returns an error rather than make a new CA if members know another: they would reject this
// broker.
func demandCA(o Options) error {
	key := filepath.Join(o.Dir, "ca", "ca.key")
	if _, err := os.Stat(key); o.TLSCertDir != "" || !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return api.Errorf(api.CodeConflict, "the market has members, but %s, which identifies their broker, does not exist",
		key).At("--dir").
		Fix("copy the folder ca from the broker's --dir or from where it led before, restore a backup, or " +
			"give --tls-cert-dir")
}

// identify opens the CA and determines the URL with which members reach the broker.
func identify(o Options, address net.Addr) (*tlsid.Authority, string, error) {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, "", err
	}
	if o.URL != "" {
		if err := join.CheckURL(o.URL); err != nil {
			return nil, "", api.Invalid("--url", "%s", err).Fix("write https://HOST:PORT")
		}
		at, _ := neturl.Parse(o.URL)
		if !slices.Contains(o.Hosts, at.Hostname()) {
			o.Hosts = append(slices.Clone(o.Hosts), at.Hostname())
		}
	}
	if len(o.Hosts) == 0 {
		if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
			return nil, "", api.Invalid("--listen", "%s does not name a host that members can reach", o.Listen).
				Fix("give --host NAME")
		}
		o.Hosts = []string{host}
	}
	url := cmp.Or(o.URL, "https://"+net.JoinHostPort(o.Hosts[0], port))
	if o.TLSCertDir != "" {
		authority, err := tlsid.OpenProvided(o.TLSCertDir, time.Now, o.Log)
		return authority, url, err
	}
	authority, err := tlsid.Open(filepath.Join(o.Dir, "ca"), o.Hosts, time.Now)
	if err != nil {
		return nil, "", err
	}
	return authority, url, authority.WriteOperator(filepath.Join(o.Dir, "operator"), "admin")
}

func serve(ctx context.Context, o Options, market *exchange.Exchange,
	known checkpoint, authority *tlsid.Authority, url string, listeners *listeners) error {
	group, ctx := errgroup.WithContext(ctx)
	// The market outlives the listeners, so that calls that have started are answered.
	marketCtx, stopMarket := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMarket()
	group.Go(func() error { return market.Run(marketCtx) })
	if err := recall(ctx, market, known); err != nil {
		o.Log.Warn("the checkpoint of advertisements was not read: clusters show when they advertise again", "error", err)
	}
	engine := match.New()
	waiting := queue.New(market, engine, o.Log)
	s := server.New(server.Options{Exchange: market, Engine: engine,
		Queue: waiting, Authority: authority, URL: url, Rate: o.Rate, Caps: o.Caps, Log: o.Log})
	if err := o.Prototypes.Serve(o.Dir, s, authority); err != nil {
		stopMarket()
		return errors.Join(err, group.Wait())
	}
	config := authority.ServerConfig()
	config.NextProtos = []string{"http/1.1"} // calls are small and connections few: one stream each is cheaper
	group.Go(func() error { return waiting.Run(ctx) })
	group.Go(func() error { return keepCheckpoint(ctx, o, market) })
	group.Go(func() error { return giveBack(ctx) })
	if listeners.probes != nil {
		group.Go(func() error { return observe(ctx, listeners.probes, market, s, o) })
	}
	group.Go(func() error { return o.Prototypes.Run(ctx, s) })
	members := o.Prototypes.Members(ctx, s)
	group.Go(func() error {
		defer stopMarket()
		var serving errgroup.Group
		serving.Go(func() error { return serveMembers(ctx, listeners.members, config, members, market) })
		operators := serveBackup(o, market, s.Operators())
		serving.Go(func() error { return server.Serve(ctx, listeners.operators, operators) })
		return serving.Wait()
	})
	if reach := join.LocalReach(url); reach != "" {
		o.Log.Warn("join tokens have a URL that can be reached "+reach+" only: give --url", "url", url)
	}
	o.Log.Info("broker serves", "url", url, "socket", o.Socket, "revision", market.View().Revision)
	if o.Ready != nil {
		o.Ready(url)
	}
	err := group.Wait()
	o.Log.Info("broker stopped", "url", url)
	return err
}

// serveMembers ends the watches first, so that the listener can stop.
func serveMembers(ctx context.Context, l net.Listener, config *tls.Config,
	h http.Handler, market *exchange.Exchange) error {
	stop := context.AfterFunc(ctx, market.EndWatches)
	defer stop()
	return server.ServeTLS(ctx, l, config, h, server.Bounds{})
}
