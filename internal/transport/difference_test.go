package transport

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// What the broker makes of a difference is the advertisement that was meant, or the whole is sent.
func TestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, next := drawMeasurement(t, 1), drawMeasurement(t, 2)
		delta, ok := difference(&old, next)
		if !ok {
			return
		}
		wire, err := json.Marshal(delta)
		if err != nil {
			t.Fatal(err)
		}
		var received api.MeasurementDelta
		if err := json.Unmarshal(wire, &received); err != nil {
			t.Fatal(err)
		}
		before, want := measured(t, old), measured(t, next)
		got, err := before.Change(received)
		if err != nil || !equality.Semantic.DeepEqual(shown(got), shown(want)) {
			t.Fatalf("%s makes %+v of %+v (%v), want %+v", wire, got, before, err, want)
		}
	})
}

// shown is a measurement without what the market remembers about how it came.
func shown(m *market.Measured) market.Measured {
	return market.Measured{Sequence: m.Sequence, Terms: m.Terms, Pools: m.Pools}
}

func measured(t *rapid.T, m api.Measurement) *market.Measured {
	out, err := market.Measure(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func drawMeasurement(t *rapid.T, number int64) api.Measurement {
	amounts := rapid.Custom(func(t *rapid.T) api.Resources {
		out := api.Resources{}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]corev1.ResourceName{"cpu",
			"memory", "nvidia.com/gpu"}), rapid.ID).Draw(t, "names") {
			out[name] = *resource.NewQuantity(rapid.Int64Range(0, 3).Draw(t, "amount"), resource.DecimalSI)
		}
		return out
	})
	account := rapid.Custom(func(t *rapid.T) api.AccountUse {
		return api.AccountUse{
			Commitments: rapid.MapOf(rapid.SampledFrom([]string{"r-1", "r-2"}), amounts).Draw(t, "commitments"),
			Used:        amounts.Draw(t, "used"),
		}
	})
	shape := rapid.Custom(func(t *rapid.T) api.Shape {
		return api.Shape{Nodes: rapid.Int64Range(1, 3).Draw(t, "nodes"), Free: amounts.Draw(t, "free")}
	})
	pool := rapid.Custom(func(t *rapid.T) api.Pool {
		var rest *api.Elsewhere
		if rapid.Bool().Draw(t, "sells elsewhere") {
			rest = &api.Elsewhere{Reserved: amounts.Draw(t, "reserved"), Used: amounts.Draw(t, "used"),
				Sold: []api.SoldUnits{{Offer: "web", Plan: "small", Units: rapid.Int64Range(0, 3).Draw(t, "units")}}}
		}
		return api.Pool{
			Elsewhere: rest, Capacity: amounts.Draw(t, "capacity"), Allocatable: amounts.Draw(t, "allocatable"),
			Allocated: amounts.Draw(t, "allocated"), Shared: amounts.Draw(t, "shared"),
			Accounts: rapid.MapOf(rapid.SampledFrom([]string{"rome", "oslo"}), account).Draw(t, "accounts"),
			Shapes:   rapid.SliceOfN(shape, 0, 2).Draw(t, "shapes"),
		}
	})
	m := api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: number},
		Pools:    rapid.MapOf(rapid.SampledFrom([]string{"general", "gpu"}), pool).Draw(t, "pools"),
	}
	if rapid.Bool().Draw(t, "shares") {
		m.Terms = &api.Terms{}
	}
	return m
}
