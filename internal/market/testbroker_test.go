package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// desk is a market at a time, for tests that tell one story.
type testBroker struct {
	*node
	t   *testing.T
	now market.Time
}

var noon = market.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// newTestBroker is a broker's market with the members rome, milan and paris. rome and milan each offer 8 cpu.
func newTestBroker(t *testing.T) *testBroker {
	d := &testBroker{node: newNode(t, ""), t: t, now: noon}
	for _, c := range []string{"rome", "milan", "paris"} {
		d.apply(market.Event{Time: d.now, Member: &market.Member{Cluster: c,
			State: api.MemberActive, Key: "k-" + c, Joined: d.now}})
	}
	d.offers("rome", 1, "8")
	d.offers("milan", 1, "8")
	return d
}

// newGate is the market of rome's agent, which offers 8 cpu.
func newGate(t *testing.T) *testBroker {
	d := &testBroker{node: newNode(t, "rome"), t: t, now: noon}
	d.offers("rome", 1, "8")
	return d
}

// must carries out what must succeed.
func (d *testBroker) must(c market.Command) market.Outcome {
	d.t.Helper()
	out, err := d.do(c, d.now)
	if err != nil {
		d.t.Fatalf("%#v: %v", c, err)
	}
	d.check()
	return out
}

// fails carries out what must fail, and leave everything as it is.
func (d *testBroker) fails(want api.Code, c market.Command) {
	d.t.Helper()
	if out, err := d.do(c, d.now); err == nil || api.CodeOf(err) != want {
		d.t.Errorf("%T: got %v and %s, want %s", c, err, dump(out), want)
	}
	d.check()
}

// pass lets time pass, and what is due happen.
func (d *testBroker) pass(by time.Duration) {
	d.t.Helper()
	d.now += market.Time(by.Milliseconds())
	for len(d.must(market.Tick{}).Events) > 0 {
	}
}

// reports is an advertisement of all of a cluster's capacity, with these accounts.
func (d *testBroker) reports(cluster string, number int64, all api.Resources, accounts map[string]api.AccountUse) {
	d.t.Helper()
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{"general": {Capacity: all, Allocatable: all, Shared: all, Accounts: accounts}},
	})
	if err == nil {
		err = d.observe(cluster, m, d.now)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.check()
}

func (d *testBroker) offers(cluster string, number int64, cpu string) {
	d.t.Helper()
	d.reports(cluster, number, resources("cpu", cpu), nil)
}

// request is paris asking for cores for an hour, of rome or else of milan.
func request(id string, cores int64) *market.Hold {
	return &market.Hold{
		ID: id, Digest: "digest", Consumer: "paris", Pool: "general", Size: cpu(cores), Duration: time.Hour,
		Request: &api.Request{Resources: cpu(cores).Resources()}, Candidates: []string{"rome",
			"milan"}, Decision: &api.Decision{Considered: 3, Candidates: 2},
	}
}

func cpu(cores int64) amounts.List { return amounts.List{{Resource: "cpu", Value: cores * 1000}} }

// held is a new hold of paris on rome.
func (d *testBroker) held(id string, cores int64) *market.Reservation {
	d.t.Helper()
	return d.must(request(id, cores)).Reservation
}

func (d *testBroker) signed(id string, cores int64) *market.Reservation {
	d.t.Helper()
	d.held(id, cores)
	return d.must(market.Confirm{ID: id, Consumer: "paris", Generation: 1, Document: "assignment"}).Reservation
}

func (d *testBroker) reserved(id string, cores int64) *market.Reservation {
	d.t.Helper()
	d.signed(id, cores)
	return d.must(market.Accept{ID: id, Provider: "rome", Generation: 1, Document: "acceptance"}).Reservation
}

// available is how many milli-cpu of a cluster are left.
func (d *testBroker) available(cluster string) int64 { return d.pool(cluster).Available.Of("cpu") }

// want compares what a reservation has become.
func (d *testBroker) want(id string, state api.State, reason api.Reason, provider string, available int64) {
	d.t.Helper()
	r := d.state.Reservation(id)
	if r == nil {
		d.t.Fatalf("no reservation %s, want %s", id, state)
	}
	if r.State != state || r.Reason != reason || r.Provider != provider {
		d.t.Errorf("%s is %s (%s) on %q, want %s (%s) on %q", id, r.State, r.Reason, r.Provider, state, reason, provider)
	}
	if got := d.available("rome"); got != available {
		d.t.Errorf("rome has %d left, want %d", got, available)
	}
}
