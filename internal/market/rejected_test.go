package market_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

func refused(consumer, id string, why int) *market.Hold {
	h := request(id, 1)
	h.Consumer, h.Key, h.Candidates = consumer, "key-"+id, nil
	h.Decision = &api.Decision{Considered: 3, NearestMiss: &api.Miss{Cluster: "rome",
		Filter: "fits", Message: strings.Repeat("x", why)}}
	return h
}

// What is remembered of rejected requests is bounded in number and bytes, for each consumer and for
// all together; the oldest go first.
func TestRememberedRejectionsAreBounded(t *testing.T) {
	for what, c := range map[string]struct{ why, want int }{"in number": {100, 100}, "in bytes": {16 << 10, 14}} {
		d := newTestBroker(t)
		for i := range 250 {
			out := d.must(refused("paris", fmt.Sprint("r-", i), c.why))
			if out.Reservation.State != api.Rejected || len(out.Events) > 0 {
				t.Fatalf("%s", dump(out))
			}
		}
		kept := d.state.Rejected("paris")
		if len(kept) != c.want || kept[0].ID != fmt.Sprint("r-", 250-c.want) || kept[c.want-1].ID != "r-249" {
			t.Errorf("bounded %s: %d are remembered, from %s on, want the newest %d", what, len(kept), kept[0].ID, c.want)
		}
		if r := d.state.Reservation("r-1"); r != nil || d.state.ByKey("paris", "key-r-1") != nil ||
			d.state.Why("r-1") != nil {
			t.Errorf("bounded %s: the second is still remembered", what)
		}
		if again := d.must(refused("paris", "other", c.why)).Reservation; again.ID != "other" {
			t.Errorf("%s", dump(again))
		}
		for _, who := range []string{"rome", "milan"} {
			d.must(refused(who, "r-"+who, 1))
		}
		if d.state.Reservation("r-rome") == nil || d.state.Reservation("other") == nil {
			t.Error("one consumer's take the place of another's")
		}
	}
}

// Many consumers together do not take more than the bound for all; those who have few keep them.
func TestAllRememberedRejectionsAreBounded(t *testing.T) {
	s := market.New("")
	remember := func(consumer, id string, why int) {
		s.Remember(&market.Reservation{ID: id, Consumer: consumer,
			State: api.Rejected, Why: market.Why(strings.Repeat("x", why))})
	}
	remember("modest", "r-modest", 100)
	bytes := 0
	const consumers = 400
	for i := range consumers {
		for n := range 3 {
			remember(fmt.Sprint("c-", i), fmt.Sprintf("r-%d-%d", i, n), 80<<10)
		}
	}
	for i := range consumers {
		for _, r := range s.Rejected(fmt.Sprint("c-", i)) {
			bytes += len(r.Why)
		}
	}
	if bytes > 64<<20 || bytes < 16<<20 || s.Reservation("r-modest") == nil {
		t.Errorf("%d bytes are remembered; modest's: %v", bytes, s.Reservation("r-modest"))
	}
}

// A restart forgets what was rejected; so does the market when the member is removed.
func TestRejectionsAreForgotten(t *testing.T) {
	d := newTestBroker(t)
	d.must(refused("paris", "r", 1))
	d.must(refused("milan", "s", 1))
	d.must(market.SetMember{Cluster: "milan", State: api.MemberRemoved})
	if d.state.Reservation("s") != nil || d.state.Reservation("r") == nil {
		t.Error("of milan, which was removed, something is remembered, or of paris nothing")
	}
	d.restart(len(d.journal))
	if d.state.Reservation("r") != nil || d.state.ByKey("paris", "key-r") != nil {
		t.Error("it is remembered over a restart")
	}
	d.offers("rome", 2, "8")
	again := refused("paris", "again", 1)
	again.Key, again.Candidates = "key-r", []string{"rome"}
	if out := d.must(again); out.Reservation.State != api.Held {
		t.Errorf("decided again it is %s", dump(out.Reservation))
	}
}
