package market_test

import (
	"fmt"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A published view never changes, and the next one shares with it all that did not change.
func TestViewsAreImmutable(t *testing.T) {
	s := market.New("")
	name := func(i int) string { return fmt.Sprintf("c%d", i) }
	for i := range 300 {
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: name(i), State: api.MemberActive}})
	}
	first := s.Publish(nil)
	s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: name(200), State: api.MemberSuspended}})
	s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: "new", State: api.MemberActive}})
	second := s.Publish(first)
	if first.Len() != 300 || second.Len() != 301 || first.Revision != 300 || second.Revision != 302 {
		t.Fatalf("views of %d at %d and %d at %d", first.Len(), first.Revision, second.Len(), second.Revision)
	}
	for i := range 300 {
		old, now := first.Listing(name(i)), second.Listing(name(i))
		if old != first.At(old.Slot) || now.Slot != old.Slot || now.Cluster != name(i) {
			t.Fatalf("%s is in slots %d and %d", name(i), old.Slot, now.Slot)
		}
		if !old.Active() || now.Active() != (i != 200) || (old == now) != (i != 200) {
			t.Errorf("%s: active %v, then %v; shared %v", name(i), old.Active(), now.Active(), old == now)
		}
	}
	if first.Listing("new") != nil || second.Listing("new") == nil || second.Listing("none") != nil {
		t.Error("a cluster is in the wrong view")
	}
	if second.Listing("new").Card().Cluster != "new" || second.Listing("new").Pool("general") != nil {
		t.Errorf("listed as %s", dump(second.Listing("new")))
	}
}

func TestListingIsFreshForOneLease(t *testing.T) {
	d := newTestBroker(t)
	lease := market.Time(market.Lease.Milliseconds())
	if l := d.listing("rome"); !l.Fresh(noon+lease-1) || l.Fresh(noon+lease) || d.listing("paris").Fresh(noon) {
		t.Errorf("fresh until %d", l.FreshUntil-noon)
	}
	d.state.RestartLeases(noon + 500)
	if l := d.listing("rome"); l.FreshUntil != noon+500+lease || d.listing("paris").FreshUntil != 0 {
		t.Errorf("restarted to %d, and for the mute to %d", l.FreshUntil-noon, d.listing("paris").FreshUntil)
	}
}

// A market that is loaded again keeps what was measured.
func TestTakeMeasurements(t *testing.T) {
	d := newTestBroker(t)
	d.reserved("r", 5)
	again := market.New("")
	if err := again.Restore([]byte(d.bytes(d.state))); err != nil {
		t.Fatal(err)
	}
	again.TakeMeasurements(d.state)
	l := again.Publish(nil).Listing("rome")
	if want := d.listing("rome"); l.FreshUntil != want.FreshUntil || dump(l.Pools) != dump(want.Pools) {
		t.Errorf("listed as %s, was %s", dump(l), dump(want))
	}
	if again.Imbalance() != 0 {
		t.Error("imbalance")
	}
}
