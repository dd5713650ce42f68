package market_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// node is a market under test as its owner would run it, next to a twin that only ever hears what a
// journal would tell it: if the two ever differ, something is not in the events.
type node struct {
	t           rapid.TB
	state, twin *market.State
	view, other *market.View
	// journal is every event so far; snapshot stands for the first folded of them.
	journal  [][]byte
	snapshot []byte
	folded   int
	// torn are the offers that a crash left between the two events of one command.
	torn map[string]bool
}

func newNode(t rapid.TB, self string) *node {
	return &node{t: t, state: market.New(self), twin: market.New(self)}
}

// open makes the clusters members, and rome one that has so much; that it says again with each measure.
func (n *node) open(has api.Resources, now market.Time) (measure func(now market.Time)) {
	for _, c := range clusters {
		n.apply(market.Event{Time: now, Member: &market.Member{Cluster: c,
			State: api.MemberActive, Key: "k-" + c, Joined: now}})
	}
	number := int64(0)
	measure = func(now market.Time) {
		number++
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &api.Terms{},
			Pools: map[string]api.Pool{"general": {Capacity: has, Allocatable: has, Shared: has}}})
		if err == nil {
			err = n.observe("rome", m, now)
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
	measure(now)
	return measure
}

// do decides a command, checks what must hold of every decision, and applies it.
func (n *node) do(c market.Command, now market.Time) (market.Outcome, error) {
	n.t.Helper()
	before := n.bytes(n.state)
	n.view = n.state.Publish(n.view)
	out, err := market.Decide(n.state, c, now)
	market.Prepare(c)
	if again, err2 := market.Decide(n.twin, c, now); n.written(again) != n.written(out) ||
		fmt.Sprint(err) != fmt.Sprint(err2) {
		n.t.Fatalf("%T: decided once as\n%s %v\nand once as\n%s %v", c, n.written(out), err, n.written(again), err2)
	}
	if after := n.bytes(n.state); after != before {
		n.t.Fatalf("deciding %T changed the state from\n%s\nto\n%s", c, before, after)
	}
	for i, view := 0, n.state.Publish(n.view); i < view.Len(); i++ {
		if view.At(i) != n.view.At(i) {
			n.t.Fatalf("deciding %T changed the listing of %s", c, view.At(i).Cluster)
		}
	}
	if err != nil && len(out.Events) > 0 {
		n.t.Fatalf("%T: an error and events: %v", c, err)
	}
	n.apply(out.Events...)
	n.state.Remember(out.Rejected)
	n.twin.Remember(out.Rejected)
	return out, err
}

func (n *node) apply(events ...market.Event) {
	for _, e := range events {
		n.journal = append(n.journal, encode(n.t, e))
		n.state.Apply(e)
		n.twin.Apply(decode(n.t, n.journal[len(n.journal)-1]))
	}
}

// check checks what must hold of every state.
func (n *node) check() {
	n.t.Helper()
	if wrong := n.state.Imbalance(); wrong != 0 {
		n.t.Fatalf("imbalance %d", wrong)
	}
	if live, replayed := n.bytes(n.state), n.bytes(n.twin); live != replayed {
		n.t.Fatalf("the state is\n%s\nbut replayed\n%s", live, replayed)
	}
	n.view, n.other = n.state.Publish(n.view), n.twin.Publish(n.other)
	for i := range n.view.Len() {
		l := n.view.At(i)
		if live, replayed := dump(l.Pools), dump(n.other.Listing(l.Cluster).Pools); live != replayed {
			n.t.Fatalf("cluster %s is listed as\n%s\nbut replayed\n%s", l.Cluster, live, replayed)
		}
		if live, replayed := sells(l), sells(n.other.Listing(l.Cluster)); live != replayed {
			n.t.Fatalf("cluster %s sells\n%s\nbut replayed\n%s", l.Cluster, live, replayed)
		}
	}
	for _, s := range []*market.State{n.state, n.twin} {
		if ids := s.Misplaced(); len(ids) > 0 || s.Queued() > s.Len() {
			n.t.Fatalf("%d entries wait, and those of %v not for their time", s.Queued(), ids)
		}
	}
	n.queues()
	n.remembers()
	if n.state.Revision != uint64(len(n.journal)) {
		n.t.Fatalf("revision %d after %d events", n.state.Revision, len(n.journal))
	}
}

// queues checks that what waits, and nothing else, is in the queue, in order.
func (n *node) queues() {
	n.t.Helper()
	want := slices.DeleteFunc(n.state.All(), func(r *market.Reservation) bool { return r.State != api.Pending })
	slices.SortFunc(want, func(a, b *market.Reservation) int {
		return cmp.Or(cmp.Compare(b.Priority(), a.Priority()), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range []*market.State{n.state, n.twin} {
		if got := s.Waiting(); !slices.EqualFunc(got, want, func(a, b *market.Reservation) bool { return a.ID == b.ID }) ||
			n.view.Waiting != len(want) {
			n.t.Fatalf("%s wait, want %s", dump(got), dump(want))
		}
	}
	for i, r := range want {
		if p := n.state.Position(r); p != i+1 {
			n.t.Fatalf("%s is at %d, want %d", r.ID, p, i+1)
		}
	}
}

// sells is what is on sale of a cluster, and sold.
func sells(l *market.Listing) string {
	said := fmt.Sprint(l.Sold)
	for _, o := range l.Offers {
		said += " " + o.Digest
	}
	return said
}

// observe takes in a measurement on both.
func (n *node) observe(cluster string, m *market.Measured, now market.Time) error {
	n.t.Helper()
	err := n.state.Observe(cluster, m, now, true)
	if err2 := n.twin.Observe(cluster, m, now, true); fmt.Sprint(err) != fmt.Sprint(err2) {
		n.t.Fatalf("observed once with %v and once with %v", err, err2)
	}
	return err
}

// wake and sleep are what an exchange tells a broker's market of its own time.
func (n *node) wake(now market.Time) { n.state.Wake(now); n.twin.Wake(now) }

func (n *node) sleep(since market.Time) { n.state.Sleep(since); n.twin.Sleep(since) }

// fold replaces the journal so far by a snapshot.
func (n *node) fold() {
	n.t.Helper()
	n.snapshot, n.folded = []byte(n.bytes(n.state)), len(n.journal)
}

// restart is a crash after the first keep events, and a start from what the journal then holds. Soft
// state is gone.
func (n *node) restart(keep int) {
	n.t.Helper()
	n.journal = n.journal[:keep]
	self, from := n.state.Self, 0
	n.state, n.twin, n.view = market.New(self), market.New(self), nil
	n.other = nil
	if n.snapshot != nil && n.folded <= keep {
		from = n.folded
		if err := n.state.Restore(n.snapshot); err != nil {
			n.t.Fatal(err)
		}
	}
	for i, data := range n.journal {
		if i >= from {
			n.state.Apply(decode(n.t, data))
		}
		n.twin.Apply(decode(n.t, data))
	}
	n.tear()
}

// tear remembers what nothing refers to after a crash.
func (n *node) tear() {
	n.torn = map[string]bool{}
	for _, o := range n.state.Offers() {
		n.torn[o.Digest] = !slices.ContainsFunc(n.state.All(),
			func(r *market.Reservation) bool { return r.Sale != nil && r.Sale.Offer == o.Digest })
	}
}

// listing is what the market publishes of a cluster; nil if it does not know it.
func (n *node) listing(cluster string) *market.Listing {
	n.view = n.state.Publish(n.view)
	return n.view.Listing(cluster)
}

// pool is what it publishes of the general pool of a cluster.
func (n *node) pool(cluster string) market.PoolListing {
	if l := n.listing(cluster); l != nil {
		if p := l.Pool("general"); p != nil {
			return *p
		}
	}
	return market.PoolListing{}
}

// written is what a journal gets of an outcome.
func (n *node) written(out market.Outcome) string {
	var data []byte
	for _, e := range out.Events {
		data = append(append(data, encode(n.t, e)...), '\n')
	}
	return string(data)
}

func (n *node) bytes(s *market.State) string {
	n.t.Helper()
	data, err := market.Encoded(s)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(data)
}

func encode(t rapid.TB, e market.Event) []byte {
	t.Helper()
	data, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t rapid.TB, data []byte) market.Event {
	t.Helper()
	e, err := market.NewEventReader().Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func dump(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
