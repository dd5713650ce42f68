package distributedcatalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
)

// arbitrary is an offer as an admin may have written it, by Bourse's means or by the prototype's.
func arbitrary(t *rapid.T) api.OfferSpec {
	o := api.OfferSpec{Draft: rapid.Bool().Draw(t, "draft"), Type: rapid.StringMatching(`[a-z]{0,10}`).Draw(t, "type"),
		Description: rapid.StringMatching(`[A-Za-z é]{0,20}`).Draw(t, "description"),
		Accept:      rapid.SampledFrom([]string{"", "true"}).Draw(t, "accept"), Labels: map[string]string{"tier": "gold"}}
	o.VisibleTo.Clusters = rapid.SampledFrom([][]string{nil, {"rome"}}).Draw(t, "visible")
	for i := range rapid.IntRange(1, 5).Draw(t, "plans") {
		p := api.Plan{Name: fmt.Sprintf("p%d", i), Description: rapid.StringMatching(`[A-Z]{0,5}`).Draw(t, "planName"),
			Pool:     rapid.SampledFrom([]string{"", "fast"}).Draw(t, "pool"),
			Quantity: rapid.Int64Range(0, 999_999).Draw(t, "quantity"), Dedicated: rapid.Bool().Draw(t,
				"dedicated"), Resources: api.Resources{"pods": resource.MustParse("10")}}
		for _, name := range []string{"cpu", "memory", "storage", "ephemeral-storage", "nvidia.com/gpu",
			"example.com/fpga"} {
			if rapid.Bool().Draw(t, name) {
				p.Resources[corev1.ResourceName(name)] = resource.MustParse(rapid.SampledFrom([]string{"1",
					"4", "2000m", "8k"}).Draw(t, "amount"))
			}
		}
		if rapid.Bool().Draw(t, "priced") {
			p.Price = &api.Price{Amount: rapid.SampledFrom([]string{"1", "0.10", "999999999.999999999", "0.000000001"}).Draw(t,
				"price"), Currency: "EUR", Period: api.PeriodHour}
		}
		if rapid.Bool().Draw(t, "lasts") {
			p.MaxDuration = &metav1.Duration{Duration: time.Hour}
		}
		o.Plans = append(o.Plans, p)
	}
	return o
}

// An offer that its seller reads and saves unchanged is the same offer: it is not signed again, and
// its IDs find it.
func TestSavedAsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := arbitrary(t)
		shown := show("milan", "web", &spec, nil)
		data, err := json.Marshal(shown)
		var back Offer
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil {
			t.Fatal(err)
		}
		name, again, err := back.read("milan", &spec)
		if err != nil || name != "web" {
			t.Fatalf("%s, %v: %s", name, err, data)
		}
		if !equality.Semantic.DeepEqual(spec, again) {
			t.Fatalf("saved as shown it is another:\n%s",
				cmp.Diff(spec, again, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })))
		}
		for i := range spec.Plans {
			if p := planOf(shown.OfferID, shown.Plans[i].PlanID, &again); p == nil || p.Name != spec.Plans[i].Name {
				t.Fatalf("plan %s is not found by %s", spec.Plans[i].Name, shown.Plans[i].PlanID)
			}
		}
	})
}

// IDs are kept where they name nobody else's offer.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		id, want string
		refused  bool
	}{
		{id: "offer1", want: "offer1"},
		{id: "milan_web", want: "milan_web"},
		{id: "0123", want: "0123"},
		{id: "Offer.With.Dots", want: "Offer.With.Dots"},
		{id: "milan_My_Offer", want: "milan_My_Offer"},
		{id: "rome_web", refused: true},
		{id: "Rome_Web", refused: true},
		{id: "", refused: true},
		{id: "a b", refused: true},
		{id: "../x", refused: true},
	} {
		o := Offer{OfferID: c.id, OfferName: "x", Plans: []Plan{{PlanID: "4567", Resources: map[string]Amount{"cpu": "1"}}}}
		name, spec, err := o.read("milan", nil)
		if c.refused {
			if err == nil {
				t.Errorf("%q is taken, as %s", c.id, name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.id, err)
			continue
		}
		if got := show("milan", name, &spec, nil); got.OfferID != c.want || got.Plans[0].PlanID != "4567" {
			t.Errorf("%q is shown as %q with plan %q", c.id, got.OfferID, got.Plans[0].PlanID)
		}
	}
	// A label that an admin wrote by hand does not make an offer another's.
	spec := api.OfferSpec{Labels: map[string]string{labelID: "rome_web"}}
	if got := offerID("milan", "web", &spec); got != "milan_web" {
		t.Errorf("milan's offer is %s", got)
	}
}

// The prototype's README writes what its code does not.
func TestREADMEsOtherShapes(t *testing.T) {
	var o Offer
	err := json.Unmarshal([]byte(`{"offerID":"0123","offerName":"CPU offer","offerType":"computational","description":"The best value for your money!","plans":[{"planID":"4567","planName":"CPU plan #1",
		"planCost":1.3,"planCostCurrency":"EUR","planCostPeriod":"1 month","planQuantity":1,"resources":{"cpu":{"core":4}}}]}`), &o)
	if err != nil {
		t.Fatal(err)
	}
	_, spec, err := o.read("milan", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := spec.Plans[0]
	if p.Price.Period != api.PeriodMonth || p.Price.Amount != "1.3" ||
		p.Resources.Cpu().Value() != 4 || p.Description != "CPU plan #1" {
		t.Errorf("%+v", p)
	}
}

// Each body is read or refused. A body that is read can be signed and shown.
func FuzzOffer(f *testing.F) {
	f.Add([]byte(`{"offerID":"offer1","offerName":"offer1","plans":[{"planID":"plan1","planCost":0.1,"planCostCurrency":"EUR","planCostPeriod":"month","planQuantity":1,"resources":{"cpu":"1","ram":"1Gi"}}]}`))
	f.Add([]byte(`{"offerID":{"$ne":""},"plans":{}}`))
	f.Add([]byte(`{"offerID":"x","created":1e400,"plans":[{"planCost":"1e9","resources":{"cpu":"9999999999999999999P"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Offer
		if json.Unmarshal(data, &o) != nil {
			return
		}
		name, spec, err := o.read("milan", nil)
		if err != nil {
			if api.CodeOf(err) == api.CodeInternal {
				t.Errorf("refused with %v", err)
			}
			return
		}
		again := show("milan", name, &spec, nil)
		if _, saved, err := again.read("milan", &spec); err != nil || !equality.Semantic.DeepEqual(saved, spec) {
			t.Errorf("saved as shown: %v\n%s", err, cmp.Diff(spec, saved))
		}
	})
}

// Lists of a contract are never null, also of one that has no offer yet. What no quantity bounds stays a million, also
// where a plan is sold in several units at least.
func TestContractsOfPlans(t *testing.T) {
	held, err := json.Marshal(document(&api.Deal{Status: api.ContractStatus{State: api.Held}}, ""))
	if err != nil || !strings.Contains(string(held), `"plans":[]`) || !strings.Contains(string(held), `"created":0`) {
		t.Errorf("without an offer: %s, %v", held, err)
	}
	o := api.OfferSpec{Plans: []api.Plan{{Name: "small", Units: &api.Units{Min: 3, Max: 9}},
		{Name: "few", Quantity: 6, Units: &api.Units{Min: 3, Max: 6}}}}
	plans := show("milan", "web", &o, func(p *api.Plan) int64 {
		if p.Quantity == 0 {
			return endless
		}
		return p.Quantity
	}).Plans
	if unbounded, few := *plans[0].PlanQuantity, *plans[1].PlanQuantity; unbounded != 1_000_000 || few != 2 {
		t.Errorf("%d and %d may be sold, want 1000000 and 2", unbounded, few)
	}
}
