package market_test

import (
	"fmt"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// parts is paris asking for three parts of cores each, of rome, milan and oslo.
func parts(cores int64) market.HoldTogether {
	var c market.HoldTogether
	for _, id := range []string{"a", "b", "c"} {
		h := request(id, cores)
		h.Candidates = []string{"rome", "milan", "oslo"}
		c.Parts = append(c.Parts, h)
	}
	c.Parts[0].Key = "key"
	return c
}

// three is a desk at which rome, milan and oslo have cores; and another, turin, has none yet.
func three(t *testing.T, cores string) *testBroker {
	d := newTestBroker(t)
	for _, c := range []string{"oslo", "turin"} {
		d.apply(market.Event{Time: d.now, Member: &market.Member{Cluster: c,
			State: api.MemberActive, Key: "k-" + c, Joined: d.now}})
	}
	for _, c := range []string{"rome", "milan", "oslo"} {
		d.offers(c, 9, cores)
	}
	return d
}

func (d *testBroker) states(want ...api.State) {
	d.t.Helper()
	for i, id := range []string{"a", "b", "c"} {
		if r := d.state.Reservation(id); r.State != want[i] {
			d.t.Errorf("%s is %s, want %s", id, r.State, want[i])
		}
	}
}

func (d *testBroker) confirms(id string) {
	d.t.Helper()
	d.must(market.Confirm{ID: id, Consumer: "paris", Generation: d.state.Reservation(id).Generation,
		Document: "assignment of " + id})
}

func TestTogetherOrNotAtAll(t *testing.T) {
	d := three(t, "8")
	d.must(parts(5))
	d.states(api.Held, api.Held, api.Held)
	for id, on := range map[string]string{"a": "rome", "b": "milan", "c": "oslo"} {
		if r := d.state.Reservation(id); r.Provider != on || dump(r.Group) != `["a","b","c"]` {
			t.Errorf("%s", dump(r))
		}
	}
	if out := d.must(parts(5)); len(out.Events) != 0 || out.Reservation.ID != "a" {
		t.Errorf("repeated: %s", dump(out))
	}
	d.restart(len(d.journal))
	d.states(api.Held, api.Held, api.Held)

	d = three(t, "8")
	d.offers("oslo", 10, "4")
	d.fails(api.CodeInsufficient, parts(5))
	if n := d.state.Len(); d.state.Reservation("a") != nil || n == 0 {
		t.Errorf("%s", dump(d.state.All()))
	}
	capped := parts(5)
	capped.Parts[0].Caps = market.Caps{Resources: cpu(14)}
	d.fails(api.CodeCapReached, capped)
}

// One that nobody accepts takes with it what is not bound: unsigned it has failed, signed it ends.
// What is bound its consumer ends.
func TestOneFailsForAll(t *testing.T) {
	d := three(t, "8")
	d.must(parts(5))
	d.confirms("b")
	d.confirms("c")
	d.must(market.Accept{ID: "c", Provider: "oslo", Generation: 1, Document: "yes"})
	d.must(market.Refuse{ID: "a", By: "paris", Generation: 1, Reason: api.ReasonPolicy})
	d.states(api.Failed, api.Releasing, api.Reserved)
	if r := d.state.Reservation("b"); r.Reason != api.ReasonPartFailed || r.Message != "part a was not accepted" {
		t.Errorf("%s", dump(r))
	}
}

// One that is refused moves to another provider, but to none of those that the others are on.
func TestPartsStayApart(t *testing.T) {
	d := three(t, "20")
	d.offers("turin", 9, "20")
	c := parts(5)
	for _, p := range c.Parts {
		p.Candidates = []string{"rome", "milan", "oslo", "turin"}
	}
	d.must(c)
	d.must(market.Refuse{ID: "a", By: "paris", Generation: 1, Reason: api.ReasonPolicy})
	d.states(api.Held, api.Held, api.Held)
	if r := d.state.Reservation("a"); r.Provider != "turin" {
		t.Errorf("%s", dump(r))
	}
	d.must(market.Release{ID: "b", By: "paris", Generation: 1, Document: "end"})
	d.states(api.Failed, api.Failed, api.Failed)
}

// The key of a split request is known as long as one of its parts is, also after a restart.
func TestTheKeyOfASplitRequestStays(t *testing.T) {
	d := newTestBroker(t)
	for _, provider := range []string{"rome", "milan"} {
		d.offers(provider, 2, "8")
	}
	split := func(n int) market.HoldTogether {
		var c market.HoldTogether
		for i := range 2 {
			part := request(fmt.Sprintf("part-%d-%d", n, i), 1)
			if part.Key = ""; i == 0 {
				part.Key = "the-key"
			}
			part.Digest = "digest"
			c.Parts = append(c.Parts, part)
		}
		return c
	}
	d.must(split(1))
	repeated := func(s *market.State, want string) {
		t.Helper()
		out, err := market.Decide(s, split(2), d.now)
		if err != nil || out.Reservation.ID != want {
			t.Errorf("a repeat makes %s, want %s: %v", dump(out.Reservation), want, err)
		}
	}
	restored := func() *market.State {
		t.Helper()
		again := market.New("")
		data, err := market.Encoded(d.state)
		if err == nil {
			err = again.Restore(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	repeated(d.state, "part-1-0")
	repeated(restored(), "part-1-0")
	d.state.Apply(market.Event{Time: d.now, Forget: &market.Forget{Reservations: []string{"part-1-0"}}})
	repeated(d.state, "part-1-1")
	repeated(restored(), "part-1-1")
	other := split(3)
	other.Parts[0].Digest = "another"
	if _, err := market.Decide(d.state, other, d.now); api.CodeOf(err) != api.CodeKeyReused {
		t.Errorf("the key with another request: %v", err)
	}
	d.state.Apply(market.Event{Time: d.now, Forget: &market.Forget{Reservations: []string{"part-1-1"}}})
	if out, err := market.Decide(d.state, split(2), d.now); err == nil && out.Reservation.ID == "part-1-1" {
		t.Error("the key of a forgotten request is still known")
	}
}
