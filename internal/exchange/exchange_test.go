package exchange_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/amounts/amountstest"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is an exchange that runs until its test ends, if not before.
type running struct {
	*exchange.Exchange
	t      testing.TB
	cancel context.CancelFunc
	ended  chan error
}

func start(t testing.TB, j journal.Journal, options exchange.Options) *running {
	t.Helper()
	if options.TickEvery == 0 {
		options.TickEvery = time.Hour // each order looks at the time, too
	}
	options.Log = slog.New(slog.DiscardHandler)
	x, err := exchange.Open(t.Context(), j, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{x, t, cancel, make(chan error, 1)}
	go func() { r.ended <- x.Run(ctx); close(r.ended) }()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// stop ends it as its process would, and returns what Run returned.
func (x *running) stop() error {
	x.cancel()
	return <-x.ended
}

func (x *running) must(c market.Command) market.Outcome {
	x.t.Helper()
	out, err := x.Do(context.Background(), c)
	if err != nil {
		x.t.Fatalf("%T: %v", c, err)
	}
	return out
}

func (x *running) fails(want api.Code, c market.Command) {
	x.t.Helper()
	if _, err := x.Do(context.Background(), c); err == nil || api.CodeOf(err) != want {
		x.t.Errorf("%T: %v, want %s", c, err, want)
	}
}

// join makes clusters members.
func (x *running) join(clusters ...string) {
	x.t.Helper()
	for _, c := range clusters {
		x.must(market.CreateToken{Token: market.Token{ID: "t-" + c, Hash: "h", Cluster: c, Expires: 1 << 50}})
		x.must(market.Join{TokenID: "t-" + c, Hash: "h", Cluster: c, Key: "k-" + c, TLSKey: "tls"})
	}
}

// advertise says how much cpu a provider has, and as many Gi of memory.
func (x *running) advertise(cluster string, number int64, cpu string) {
	x.t.Helper()
	if err := x.Observe(context.Background(), cluster, measured(x.t, number, cpu), true); err != nil {
		x.t.Fatal(err)
	}
}

func measured(t testing.TB, number int64, cpu string) *market.Measured {
	t.Helper()
	all := resources("cpu", cpu, "memory", cpu+"Gi")
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: all, Allocatable: all, Shared: all}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// available is how many milli-cpu of a cluster are left, as published.
func (x *running) available(cluster string) int64 {
	l := x.View().Listing(cluster)
	if l == nil || l.Pool(api.GeneralPool) == nil {
		return 0
	}
	return l.Pool(api.GeneralPool).Available.Of("cpu")
}

// snapshot is everything durable, as bytes.
func (x *running) snapshot() string {
	x.t.Helper()
	_, data, err := x.Snapshot(context.Background())
	if err != nil {
		x.t.Fatal(err)
	}
	return string(data)
}

// look lets the exchange look at the clock, and do what is due.
func (x *running) look() {
	x.t.Helper()
	if err := x.Read(context.Background(), func(*market.State) {}); err != nil {
		x.t.Fatal(err)
	}
}

// reservation is the durable record, or an empty one.
func (x *running) reservation(id string) market.Reservation {
	x.t.Helper()
	out := market.Reservation{}
	if err := x.Read(context.Background(), func(s *market.State) {
		if r := s.Reservation(id); r != nil {
			out = *r
		}
	}); err != nil {
		x.t.Fatal(err)
	}
	return out
}

// hold is paris asking for cores of rome for an hour.
func hold(id string, cores int64) *market.Hold {
	return &market.Hold{ID: id, Key: "key of " + id, Request: &api.Request{},
		Consumer: "paris", Pool: api.GeneralPool, Size: amounts.List{{Resource: "cpu", Value: cores * 1000}},
		Duration: time.Hour, Candidates: []string{"rome"}, Decision: &api.Decision{Considered: 1, Candidates: 1}}
}

// founded is an exchange with the members rome and paris; rome offers 8 cpu.
func founded(t testing.TB, j journal.Journal, options exchange.Options) *running {
	t.Helper()
	x := start(t, j, options)
	x.join("rome", "paris")
	x.advertise("rome", 1, "8")
	return x
}

var resources = amountstest.Resources

func TestOrdersOfOneCallerSeeEachOther(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{Clock: newClock()})
	x.must(hold("r", 5))
	if got := x.available("rome"); got != 3000 {
		t.Errorf("the published view says %d are left", got)
	}
	if r := x.reservation("r"); r.State != api.Held {
		t.Errorf("the state says %s", r.State)
	}
	x.fails(api.CodeInsufficient, hold("s", 5))
	if s := x.Stats(); s.Events != 7 || s.Batches != 5 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if err := x.stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	x.fails(api.CodeUnavailable, hold("t", 1))
}

func TestTimeIsKnownBeforeTheFirstOrder(t *testing.T) {
	clock := newClock()
	x, err := exchange.Open(t.Context(), newMemory(), exchange.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if x.Now() != noon || x.Lineage() == "" {
		t.Errorf("now is %v of lineage %q", x.Now().Go(), x.Lineage())
	}
}

// The exchange does not wait for a caller that gave up, and does not touch its variables.
func TestCallersThatGoAway(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 200 {
		looked := false
		if err := x.Read(gone, func(*market.State) { looked = true }); err == nil != looked ||
			err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("looked: %v, but %v", looked, err)
		}
		if out, err := x.Do(gone, hold("r", 1)); err != nil && out.Reservation != nil {
			t.Fatalf("try %d: %v and %v", i, out, err)
		}
	}
}
