package market_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A key that a broker holds for a cluster never takes the place of the cluster's own, and the first
// of its own takes its place.
func TestALegacyKeyGivesWay(t *testing.T) {
	d := newGate(t)
	legacy := market.Pin{Cluster: "milan", Key: "broker's", Legacy: true}
	if m := d.must(legacy).Member; !m.Legacy || m.Key != "broker's" {
		t.Fatalf("%+v", m)
	}
	if out := d.must(legacy); len(out.Events) > 0 {
		t.Error("a repeat changed something")
	}
	if _, err := d.do(market.Pin{Cluster: "milan", Key: "another of the broker's", Legacy: true},
		noon); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("another one of the broker's: %v", err)
	}
	if m := d.must(market.Pin{Cluster: "milan", Key: "own"}).Member; m.Legacy || m.Key != "own" || len(m.Former) > 0 {
		t.Errorf("%+v", m)
	}
	for _, back := range []market.Pin{legacy, {Cluster: "milan", Key: "own", Legacy: true}} {
		_, err := d.do(back, noon)
		if m := d.state.Member("milan"); back.Key != "own" && api.CodeOf(err) != api.CodeKeyChanged || m.Key != "own" {
			t.Errorf("%+v: %v, %+v", back, err, m)
		}
	}
}

// Only the broker's members without a key have a card that says so.
func TestALegacyCard(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Enroll{Cluster: "oslo", Key: "k-oslo", Legacy: true})
	card := func(cluster string, legacy bool) market.PutCard {
		return market.PutCard{Signed: "jws of " + cluster,
			Card: api.Card{Cluster: cluster, Key: "k-" + cluster, Number: 1, Legacy: legacy}}
	}
	for _, wrong := range []market.PutCard{card("oslo", false), card("rome", true)} {
		if _, err := d.do(wrong, noon); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%+v: %v", wrong.Card, err)
		}
	}
	d.must(card("oslo", true))
	d.must(card("rome", false))
}

// The holds of a legacy member are signed again when it gets its own key.
func TestALegacyMemberJoins(t *testing.T) {
	d := newTestBroker(t)
	d.must(market.Enroll{Cluster: "oslo", Key: "broker's", Legacy: true})
	d.must(market.SetMember{Cluster: "oslo", State: api.MemberActive})
	h := request("r", 2)
	h.Consumer, h.Candidates = "oslo", []string{"rome"}
	d.must(h)
	d.must(market.Confirm{ID: "r", Consumer: "oslo", Generation: 1, Document: "by the broker"})
	d.must(token("open", ""))
	if _, err := d.do(joining("open", "oslo"), noon); api.CodeOf(err) != api.CodeKeyChanged {
		t.Errorf("by a token for anybody: %v", err)
	}
	d.must(token("named", "oslo"))
	d.must(joining("named", "oslo"))
	d.pass(0)
	m, r := d.state.Member("oslo"), d.state.Reservation("r")
	if m.Legacy || m.Key != "k-oslo" || m.State != api.MemberActive || r.Assignment != "" || r.Generation != 2 {
		t.Errorf("%+v\n%+v", m, r)
	}
}
