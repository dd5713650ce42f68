package market_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// If a pod is said to fit, it does, wherever what is not used yet is put: tried by putting it
// everywhere. With one resource the reverse holds too.
func TestHostsWhateverIsPutWhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpu := func(v int64) amounts.List { return amounts.List{{Resource: "cpu", Value: v}} }
		var shapes []market.Shape
		var nodes []int64
		for range rapid.IntRange(0, 3).Draw(t, "shapes") {
			s := market.Shape{Nodes: rapid.Int64Range(1, 2).Draw(t, "nodes"), Free: cpu(rapid.Int64Range(0, 6).Draw(t, "free"))}
			shapes = append(shapes, s)
			for range s.Nodes {
				nodes = append(nodes, s.Free.Of("cpu"))
			}
		}
		unfilled, need := rapid.Int64Range(0, 14).Draw(t, "unfilled"), rapid.Int64Range(1, 6).Draw(t, "pod")
		var always func(at int, left int64) bool
		always = func(at int, left int64) bool { // nodes from at on may get up to left
			if at == len(nodes) {
				for _, free := range nodes {
					if free >= need {
						return true
					}
				}
				return false
			}
			for put := range min(left, nodes[at]) + 1 {
				nodes[at] -= put
				fits := always(at+1, left-put)
				nodes[at] += put
				if !fits {
					return false
				}
			}
			return true
		}
		if got, want := market.Hosts(shapes, cpu(unfilled), cpu(need)), always(0, unfilled); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// The broker debits what it just held, until the pods are there; and what others are likely to take.
func TestAHoldIsDebitedFromShapes(t *testing.T) {
	d := newTestBroker(t)
	shaped := func(number int64, shapes []api.Shape, accounts map[string]api.AccountUse) {
		m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number},
			Terms: &api.Terms{}, Pools: map[string]api.Pool{
				"general": {Capacity: resources("cpu", "16"), Allocatable: resources("cpu", "16"),
					Shared: resources("cpu", "16"), Accounts: accounts, Shapes: shapes}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.observe("rome", m, d.now); err != nil {
			t.Fatal(err)
		}
	}
	asking := func(id string, cores int64, pod string) *market.Hold {
		h := request(id, cores)
		h.Candidates, h.Request.PodShape = []string{"rome"}, resources("cpu", pod)
		return h
	}
	nodes := []api.Shape{{Nodes: 2, Free: resources("cpu", "8")}}
	shaped(9, nodes, nil)
	d.fails(api.CodeInsufficient, asking("large", 10, "9"))
	d.must(asking("a", 6, "6"))
	d.fails(api.CodeInsufficient, asking("b", 6, "6")) // 3 on each leave 5
	d.must(asking("b", 6, "4"))
	d.fails(api.CodeInsufficient, asking("c", 4, "4")) // 12 may leave less than 4 on both
	d.must(asking("c", 1, "1"))                        // but not less than 1
	d.must(request("no shape is asked", 1))
	d.must(market.Refuse{ID: "a", By: "paris", Generation: 1})
	d.restart(len(d.journal))
	shaped(10, []api.Shape{{Nodes: 1, Free: resources("cpu", "8")}, {Nodes: 1, Free: resources("cpu", "2")}},
		map[string]api.AccountUse{"paris": {Used: resources("cpu", "6")}})
	if got := d.pool("rome").Unfilled.Of("cpu"); got != 2000 {
		t.Errorf("%d unfilled, want 2000: what pods took is in what nodes have free", got)
	}
	d.must(asking("e", 1, "1"))
}

func TestShapesThatCannotBe(t *testing.T) {
	many := make([]api.Shape, market.MaxShapes+1)
	for i := range many {
		many[i] = api.Shape{Nodes: 1, Free: resources("cpu", "1")}
	}
	for name, shapes := range map[string][]api.Shape{
		"too many": many, "no nodes": {{Free: resources("cpu", "1")}}, "nodes without end": {{Nodes: 1 << 60,
			Free: resources("cpu", "1")}},
		"less than nothing": {{Nodes: 1, Free: resources("cpu", "-1")}},
	} {
		if _, err := market.Measure(measurement(map[string]api.Pool{"general": {Shapes: shapes}})); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
