package sharing_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/match"
)

// A SharingPolicy that promises access through a network must have one.
func TestAnAPIServerBehindNoNetwork(t *testing.T) {
	for network, valid := range map[api.NetworkMode]bool{"": false, api.NetworkNone: false, api.NetworkWireGuard: true} {
		err := sharing.Check(&api.Sharing{Network: network, APIServerAccess: api.APIServerNetwork})
		if (err == nil) != valid || err != nil && api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("network %q: %v", network, err)
		}
	}
}

// A pool of virtual nodes is the only one, and lends nothing but what pods use.
func TestAPolicyOfAHub(t *testing.T) {
	hub := func(change func(*api.Sharing)) *api.Sharing {
		s := &api.Sharing{Pools: []api.PoolPolicy{{Name: "a", VirtualNodes: &api.VirtualNodes{
			Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "on"}}}}}}
		change(s)
		return s
	}
	amount := resource.MustParse("1Gi")
	for field, change := range map[string]func(*api.Sharing){
		"":                      func(*api.Sharing) {},
		"pools.a.virtualNodes.": func(s *api.Sharing) { s.Pools[0].VirtualNodes.Selector.MatchLabels = nil },
		"pools.a.virtualNodes":  func(s *api.Sharing) { s.Pools = append(s.Pools, api.PoolPolicy{Name: "b"}) },
		"byHand": func(s *api.Sharing) {
			s.Pools[0].VirtualNodes.ByHand = []api.HandMadeNode{{Node: "a", Max: api.Resources{"cpu": resource.MustParse("-1")}}}
		},
		"network":        func(s *api.Sharing) { s.Network = api.NetworkWireGuard },
		"relend":         func(s *api.Sharing) { s.Relend = true },
		"virtualNodes":   func(s *api.Sharing) { s.Pools[0].Storage = &amount },
		"a.virtualNodes": func(s *api.Sharing) { s.Pools[0].NodeSelector = map[string]string{"a": "b"} },
	} {
		err := sharing.Check(hub(change))
		if (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// A slice of a peering made by hand is named once, with its max.
func TestAPolicyWithPlainConsumers(t *testing.T) {
	most := api.Resources{"cpu": resource.MustParse("4")}
	lyon := api.PlainConsumer{Cluster: "lyon", Slice: "rented", Max: most}
	for field, pools := range map[string][][]api.PlainConsumer{
		"":              {{lyon, {Cluster: "lyon", Slice: "other", Max: most}}, {{Cluster: "nice", Slice: "rented", Max: most}}},
		"b.plain":       {{lyon}, {lyon}},
		"a.plain":       {{{Cluster: "lyon", Slice: "rented"}}},
		"lyon.rented.m": {{{Cluster: "lyon", Slice: "rented", Max: api.Resources{"cpu": resource.MustParse("-1")}}}},
	} {
		s := &api.Sharing{}
		for i, consumers := range pools {
			s.Pools = append(s.Pools, api.PoolPolicy{Name: string("ab"[i]), PlainConsumers: consumers})
		}
		err := sharing.Check(s)
		if (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// Of devices there are only whole ones: half a GPU would silently count as none.
func TestHalfADevice(t *testing.T) {
	half := api.Resources{"nvidia.com/gpu": resource.MustParse("500m")}
	pool := api.PoolPolicy{Name: api.GeneralPool}
	caps, headroom, plain := pool, pool, pool
	caps.Caps, headroom.Headroom = half, half
	plain.PlainConsumers = []api.PlainConsumer{{Cluster: "lyon", Slice: "rented", Max: half}}
	for at, s := range map[string]api.Sharing{
		"maxPerConsumer.nvidia.com/gpu":                               {Terms: api.Terms{MaxPerConsumer: half}},
		"maxPerReservation.nvidia.com/gpu":                            {Terms: api.Terms{MaxPerReservation: half}},
		"pools.general.caps.nvidia.com/gpu":                           {Pools: []api.PoolPolicy{caps}},
		"pools.general.headroom.nvidia.com/gpu":                       {Pools: []api.PoolPolicy{headroom}},
		"pools.general.plainConsumers.lyon.rented.max.nvidia.com/gpu": {Pools: []api.PoolPolicy{plain}},
	} {
		err := sharing.Check(&s)
		if e, _ := errors.AsType[*api.Error](err); e == nil || e.Field != at || !strings.Contains(err.Error(), "write 0 or 1") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A policy that is not valid shares nothing, and its status says why. A valid one is in force, and
// each change of it is advertised.
func TestPolicyInForce(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	policy := sharing.NewPolicy(sharing.PolicyOptions{Client: c, Engine: match.New()})
	if err := policy.Load(ctx); err != nil || policy.Sharing() != nil {
		t.Fatalf("without a policy: %+v, %v", policy.Sharing(), err)
	}
	object := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	object.Spec.Allow = "no such thing"
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	ready := func() *metav1.Condition {
		t.Helper()
		if err := policy.Load(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(object.Status.Conditions, api.ConditionReady)
	}
	if is := ready(); policy.Sharing() != nil || is == nil || is.Status != metav1.ConditionFalse ||
		is.Reason != string(api.CodeInvalid) {
		t.Errorf("an expression that cannot be: %+v, and %+v is in force", is, policy.Sharing())
	}
	object.Spec.Allow = ""
	object.Spec.ResourcePlugin = "plugin:6001"
	if err := c.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	if is := ready(); policy.Sharing() == nil || is.Status != metav1.ConditionTrue {
		t.Errorf("a valid policy: %+v, and %+v is in force", is, policy.Sharing())
	}
	if fields := sharing.IgnoredFields(policy.Sharing()); len(fields) != 1 ||
		!meta.IsStatusConditionTrue(object.Status.Conditions, api.ConditionIgnoredFields) {
		t.Errorf("a field without effect: %+v, %+v", fields, object.Status.Conditions)
	}
}

// The brokers of a policy have the names of brokers, and there are not too many of them.
func TestBrokersOfAPolicy(t *testing.T) {
	many := slices.Repeat([]string{"north"}, 17)
	for name, c := range map[string]struct {
		brokers []string
		valid   bool
	}{"none": {nil, true}, "two": {[]string{"main", "north"}, true}, "no name": {[]string{"North Broker"}, false},
		"too many": {many, false}} {
		err := sharing.Check(&api.Sharing{Brokers: c.brokers, Pools: []api.PoolPolicy{{Name: api.GeneralPool}}})
		if (err == nil) != c.valid || err != nil && !strings.Contains(err.Error(), "brokers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
