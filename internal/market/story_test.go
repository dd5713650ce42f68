package market_test

import (
	"reflect"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// story is a journal in which every field of every event has something to say.
func story(t testing.TB) [][]byte {
	n := newNode(t, "")
	do := func(at market.Time, commands ...market.Command) {
		for _, c := range commands {
			if _, err := n.do(c, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(noon, token("open", ""), token("named", "rome"), token("spare", "milan"),
		joining("named", "rome"), joining("open", "paris"), joining("spare", "milan"),
		market.SetMember{Cluster: "paris", State: api.MemberActive},
		market.PutCard{Signed: "jws", Card: api.Card{Cluster: "rome",
			Key: "k-rome", Number: 1, MaxNamespaces: 500, Properties: api.Properties{Region: "eu", Unverified: true, Zones: []string{"a", "b"},
				Architectures: []string{"arm64"}, GPUs: []string{"A100"}, Kubernetes: "v1.35.4", Liqo: "v1.2.0",
				LiqoProtocol:   []string{"ResourceSlice authentication.liqo.io/v1beta1"},
				StorageClasses: []string{"fast"}, Labels: map[string]string{"tier": "gold"}}}})
	all := resources("cpu", "8", "memory", "16Gi")
	m, err := market.Measure(measurement(map[string]api.Pool{"general": {Allocatable: all, Shared: all}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range []string{"rome", "milan"} {
		if err := n.observe(provider, m, noon); err != nil {
			t.Fatal(err)
		}
	}
	h := request("r", 2)
	h.Key = "key\u2028"
	h.Request = &api.Request{Resources: resources("cpu", "2", "memory", "1536Mi"),
		Duration: duration("1h"), Pool: "general", Where: `region == "<eu>"`,
		Properties: map[string]string{"tier": "gold"}, Target: "rome", Exclude: []string{"lyon"}, Prefer: []string{"rome"}, Strategy: api.Pack, Confirm: true,
		StickTo: []string{"rome", "milan"}, MaxPrice: &api.Price{Amount: "0.5", Currency: "EUR", Period: api.PeriodDay}}
	h.Decision = &api.Decision{Considered: 5, Hidden: 1,
		Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 2}}, Candidates: 2,
		Top: []api.Scored{{Cluster: "rome", Score: 9, Scores: []api.Score{{Scorer: "headroom", Value: 9}},
			Bought: &api.Bought{Plan: "rome/web/small", Units: 2,
				Cost: "1.20 EUR"}}}, NearestMiss: &api.Miss{Cluster: "oslo", Filter: "fits", Message: "1 cpu short"}, Parts: 2}
	rejected := request("gone", 2)
	rejected.Candidates = nil
	do(noon, rejected, h,
		market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment 1"},
		market.Refuse{ID: "r", By: "rome", Generation: 1, Reason: api.ReasonPolicy, Message: "no"},
		market.Confirm{ID: "r", Consumer: "paris", Generation: 2, Document: "assignment 2"},
		market.Accept{ID: "r", Provider: "milan", Generation: 2, Document: "acceptance"},
		market.Activate{ID: "r", Consumer: "paris"},
		market.Release{ID: "r", By: "milan", Generation: 2, Reason: api.ReasonRevokedByProvider, Document: "end"})
	later := noon + market.Time(market.Retention.Milliseconds())
	do(later, market.Tick{}) // forgets what was rejected
	do(later+1000, market.Tick{}, market.Tick{})
	// as only an agent writes it
	n.apply(market.Event{Time: later + 1000, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{
		ID: "own", State: api.Held, Consumer: "paris", Provider: "rome", Pool: "general", Size: cpu(1), Generation: 1, HeldUntil: later + 2000,
		Object: &market.Object{Namespace: "demo", Name: "mine", UID: "u"}, Fence: api.Fence{Lineage: "l", Revision: 3}}}})
	member, whole := &market.Member{}, &market.Reservation{}
	fill(reflect.ValueOf(member).Elem())
	fill(reflect.ValueOf(whole).Elem())
	member.Cluster, member.State = "oslo", api.MemberActive
	whole.ID, whole.State, whole.Provider, whole.Size = "whole", api.Reserved, "rome", cpu(1)
	whole.Change.Size, whole.Sale = cpu(2), &api.Sale{Offer: version(t, 1).Offer.Digest, Plan: "small", Units: 1}
	do(later+1000, version(t, 1))
	n.apply(market.Event{Time: later + 1000, Member: member},
		market.Event{Time: later + 1000, Reservation: &market.ReservationEvent{Reservation: whole}})
	n.apply(market.Event{Time: later + 1000, Forget: &market.Forget{Offers: []string{"unknown"},
		Spent:  []market.Spent{{ID: "spent", Until: later + 10_000_000, Consumer: "paris", AcceptBy: later}},
		Passed: []market.Passed{{Consumer: "oslo", AcceptBy: later, Until: later + 10_000_000}}}})
	n.wake(later)
	again := func(number int64, at market.Time) {
		heard := *m
		heard.Sequence.Number = number
		if err := n.observe("rome", &heard, at); err != nil {
			t.Fatal(err)
		}
		do(at, market.Notice{})
	}
	again(2, later+1000)
	do(later+100_000, market.Notice{})
	again(3, later+400_000)
	do(later+500_000, market.Notice{}, market.EndOperators{})
	n.check()
	return n.journal
}
