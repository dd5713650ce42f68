package match_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// now is the time of every test.
var now = market.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// cluster is a member as a test describes it. Left out: an active one with a card, just
// heard of, that lends to everyone.
type cluster struct {
	State api.MemberState `json:"state,omitempty"`
	NoKey bool            `json:"noKey,omitempty"`
	// Legacy: the broker signs in its name. Enabled are the providers that it chose, if it did.
	Legacy  bool     `json:"legacy,omitempty"`
	Enabled []string `json:"enabled,omitempty"`
	// Stranger is no member at all.
	Stranger   bool           `json:"stranger,omitempty"`
	Properties api.Properties `json:"properties,omitempty"`
	// Silent is how long ago it was last heard of; Restarted: the broker has restarted since.
	Silent    metav1.Duration `json:"silent,omitempty"`
	Restarted bool            `json:"restarted,omitempty"`
	// Uptime is in parts per million. Left out: the broker has not seen it for 24h.
	Uptime *int64 `json:"uptime,omitempty"`
	// Kept and Broken are how many promises it kept and broke today. Left out: the record is not known.
	Kept   int `json:"kept,omitempty"`
	Broken int `json:"broken,omitempty"`
	// Shares nothing: it is only a consumer.
	SharesNothing bool      `json:"sharesNothing,omitempty"`
	Terms         api.Terms `json:"terms,omitempty"`
	// Pools may leave out capacity and allocatable; they are then what is shared.
	Pools map[string]api.Pool `json:"pools,omitempty"`
	// Offers are on sale, by name; Sold is how many units of a plan are sold, by "offer/plan".
	Offers map[string]api.OfferSpec `json:"offers,omitempty"`
	Sold   map[string]int64         `json:"sold,omitempty"`
}

// viewOf is a market with these clusters, in this order.
func viewOf(tb testing.TB, clusters map[string]cluster, order ...string) *market.View {
	tb.Helper()
	s := market.New("")
	if order == nil {
		order = slices.Sorted(maps.Keys(clusters))
	}
	for _, id := range order {
		put(tb, s, id, clusters[id], 1)
	}
	remember(s, clusters)
	return s.Publish(nil)
}

// remember lets ten days have passed, for which each cluster was there as much as its uptime says,
// and then away.
func remember(s *market.State, clusters map[string]cluster) {
	const awake = market.Time(10 * 24 * time.Hour / time.Millisecond)
	notice := func(l market.Leases) { s.Apply(market.Event{Time: now, Leases: &l}) }
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(clusters)),
		func(id string) bool { return clusters[id].Uptime == nil })
	notice(market.Leases{Regained: known})
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(*clusters[a].Uptime, *clusters[b].Uptime) })
	for _, id := range known {
		notice(market.Leases{Awake: awake / 1_000_000 * market.Time(*clusters[id].Uptime), Lost: []string{id}})
	}
	notice(market.Leases{Awake: awake})
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		for i := range clusters[id].Kept + clusters[id].Broken {
			s.Apply(market.Event{Time: now, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{
				ID: fmt.Sprintf("%s-%d", id, i), State: api.Released, Consumer: fmt.Sprint("consumer-",
					i), Provider: id, Changed: now,
				Promise: &market.Promise{Provider: id, Kept: i < clusters[id].Kept}}}})
		}
	}
}

// put makes a cluster a member and lets it advertise.
func put(tb testing.TB, s *market.State, id string, c cluster, number int64) {
	tb.Helper()
	member := &market.Member{Cluster: id, State: c.State, Key: "key",
		Card: &api.Card{Cluster: id, Key: "key", Properties: c.Properties}}
	if c.State == "" {
		member.State = api.MemberActive
	}
	member.Legacy, member.Card.Legacy = c.Legacy, c.Legacy
	if c.Enabled != nil {
		member.Enabled = &market.Enabled{Providers: c.Enabled}
	}
	if c.NoKey {
		member.Key, member.Card = "", nil
	}
	if !c.Stranger {
		s.Apply(market.Event{Time: now, Member: member})
	}
	advertise(tb, s, id, c, number)
	for name, spec := range c.Offers {
		o := offered(tb, id, name, spec)
		o.OnSale = true
		s.Apply(market.Event{Time: now, Offer: o})
	}
	for what, units := range c.Sold {
		offer, plan, _ := strings.Cut(what, "/")
		s.Apply(market.Event{Time: now, Reservation: &market.ReservationEvent{Reservation: &market.Reservation{
			ID: "r-" + id + "-" + offer, State: api.Reserved, Consumer: "elsewhere", Provider: id, Pool: "sold",
			Sale: &api.Sale{Offer: digestOf(id, offer), Plan: plan, Units: units}}}})
	}
}

// offered is an offer as the market has it. That its seller signed it was checked before.
func offered(tb testing.TB, seller, name string, spec api.OfferSpec) *market.Offer {
	tb.Helper()
	payload, err := json.Marshal(api.SignedOffer{Protocol: api.Protocol,
		Seller: seller, Name: name, Version: 1, Offer: spec})
	if err != nil {
		tb.Fatal(err)
	}
	o, err := market.ReadOffer("x." + base64.RawURLEncoding.EncodeToString(payload) + ".y")
	if err != nil {
		tb.Fatal(err)
	}
	o.Digest = digestOf(seller, name)
	return o
}

func digestOf(seller, offer string) string { return "SHA256:" + seller + "/" + offer }

func advertise(tb testing.TB, s *market.State, id string, c cluster, number int64) {
	tb.Helper()
	m := api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Pools: map[string]api.Pool{}}
	if !c.SharesNothing {
		m.Terms = &c.Terms
	}
	for name, p := range c.Pools {
		if p.Allocatable == nil {
			p.Allocatable = p.Shared
		}
		if p.Capacity == nil {
			p.Capacity = p.Allocatable
		}
		m.Pools[name] = p
	}
	measured, err := market.Measure(m)
	if err != nil {
		tb.Fatalf("%s: %v", id, err)
	}
	heard := now - market.Time(c.Silent.Milliseconds())
	if err := s.Observe(id, measured, heard, !c.Restarted); err != nil {
		tb.Fatalf("%s: %v", id, err)
	}
}

// of is resources by name and amount: of("cpu", "4", "memory", "8Gi").
func of(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// lends is a cluster whose pool general shares this.
func lends(pairs ...string) cluster {
	return cluster{Pools: map[string]api.Pool{api.GeneralPool: {Shared: of(pairs...)}}}
}
