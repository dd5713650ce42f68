package amounts_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/amounts/amountstest"
)

var resources = amountstest.Resources

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

func TestNeedRoundsUpAndHaveRoundsDown(t *testing.T) {
	for _, c := range []struct {
		resource, quantity string
		need, have         int64
	}{
		{"cpu", "2", 2000, 2000},
		{"cpu", "250m", 250, 250},
		{"cpu", "1500u", 2, 1},
		{"cpu", "1n", 1, 0},
		{"memory", "1Gi", 1 << 30, 1 << 30},
		{"memory", "1500m", 2, 1},
		{"nvidia.com/gpu", "100m", 1, 0},
		{"pods", "1.1k", 1100, 1100},
		{"cpu", "1152921504606846", 1152921504606846000, 1152921504606846000}, // the most
	} {
		need, err := amounts.ParseRequest("f", resources(c.resource, c.quantity))
		if err != nil || need.Of(c.resource) != c.need {
			t.Errorf("need %s %s: %v, %v, want %d", c.quantity, c.resource, need, err, c.need)
		}
		have, err := amounts.ParseCapacity("f", resources(c.resource, c.quantity))
		if err != nil || have.Of(c.resource) != c.have {
			t.Errorf("have %s %s: %v, %v, want %d", c.quantity, c.resource, have, err, c.have)
		}
	}
}

func TestHostileResources(t *testing.T) {
	many := func(n int) api.Resources {
		out := api.Resources{}
		for i := range n {
			out[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = quantity(1)
		}
		return out
	}
	for name, c := range map[string]struct {
		given     api.Resources
		onlyNeed  bool
		wantField string
	}{
		"negative":              {resources("cpu", "-1"), false, "f.cpu"},
		"tiny and negative":     {resources("memory", "-1n"), false, "f.memory"},
		"absurd":                {resources("memory", "1152921504606846977"), false, "f.memory"},
		"absurd for a request":  {resources("memory", "1152921504606847"), true, "f.memory"},
		"absurd cores":          {resources("cpu", "1152921504606847"), false, "f.cpu"},
		"more absurd":           {resources("cpu", "1e30"), false, "f.cpu"},
		"65 resources":          {many(65), false, "f"},
		"no name":               {resources("", "1"), false, "f"},
		"control characters":    {resources("example.com/a\x00b", "1"), false, "f"},
		"a line feed":           {resources("gpu\n", "1"), false, "f"},
		"a name without end":    {resources("example.com/"+strings.Repeat("x", 5000), "1"), false, "f"},
		"a path":                {resources("../../etc/passwd", "1"), false, "f"},
		"nothing":               {nil, true, "f"},
		"nothing but zeros":     {resources("cpu", "0", "memory", "0"), true, "f"},
		"the first of two says": {resources("memory", "-1", "cpu", "-1"), false, "f.cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 { // for any order of the map
				_, err := amounts.ParseRequest("f", c.given)
				invalid(t, err, c.wantField)
				if _, err = amounts.ParseCapacity("f", c.given); c.onlyNeed {
					if err != nil {
						t.Error(err)
					}
				} else {
					invalid(t, err, c.wantField)
				}
			}
		})
	}
	if got, err := amounts.ParseCapacity("f", many(64)); err != nil || len(got) != 64 {
		t.Errorf("64 resources: %d, %v", len(got), err)
	}
}

var invalid = amountstest.CheckInvalid

func TestResourcesAreWhatTheyWere(t *testing.T) {
	given := resources("cpu", "1500m", "memory", "3Gi", "nvidia.com/gpu", "2", "ephemeral-storage", "1Ti")
	list, err := amounts.ParseRequest("f", given)
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range list.Resources() {
		if want := given[name]; q.Cmp(want) != 0 || q.String() != want.String() {
			t.Errorf("%s: %s, want %s", name, q.String(), want.String())
		}
	}
}

// An amount that was sent is spelled as before it was sent.
func TestAnAmountHasOneSpelling(t *testing.T) {
	for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
		for _, value := range []int64{1, 7, 1000, 1024, 2000, 2048,
			2_000_000, 1 << 20, 3 << 19, 1000 << 10, 1_500_000_000, 1 << 50, 1_000_000_007} {
			sent := amounts.Amount{Resource: name, Value: value}.Quantity()
			text, err := json.Marshal(sent)
			var got resource.Quantity
			if err == nil {
				err = json.Unmarshal(text, &got)
			}
			if again, _ := json.Marshal(got); err != nil || string(again) != string(text) || got.Cmp(sent) != 0 {
				t.Errorf("%d of %s is sent as %s, and then as %s, %v", value, name, text, again, err)
			}
		}
	}
}

// What pods and nodes say is counted, also if no cluster has as much.
func TestClamp(t *testing.T) {
	huge, few := quantity(1<<62), quantity(3)
	huge.Add(huge)
	got := amounts.Clamp(api.Resources{"cpu": huge, "memory": huge, "pods": few, "not a name": few,
		"example.com/debt": quantity(-4), "ephemeral-storage": quantity(1 << 55)})
	want := amounts.List{{"cpu", amounts.Max}, {"ephemeral-storage", 1 << 55}, {"memory", amounts.Max}, {"pods", 3}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	many := api.Resources{}
	for i := range 100 {
		many[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = few
	}
	if got := amounts.Clamp(many); len(got) != 100 {
		t.Errorf("%d of 100 resources count", len(got))
	}
}

// The arithmetic of lists is that of maps in which what is missing is 0.
func TestArithmetic(t *testing.T) {
	set := rapid.Custom(func(t *rapid.T) amounts.List {
		var out amounts.List
		for _, name := range []string{"a", "b", "c", "d"} {
			if rapid.Bool().Draw(t, "has") {
				out = append(out, amounts.Amount{Resource: name, Value: rapid.Int64Range(-3, 3).Draw(t, name)})
			}
		}
		return out
	})
	isZero := func(a amounts.Amount) bool { return a.Value == 0 }
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := set.Draw(t, "a"), set.Draw(t, "b"), set.Draw(t, "c")
		before := fmt.Sprint([]amounts.List{a, b, c})
		plus, minus, most, swapped, only := a.Plus(b), a.Minus(b), a.Max(b), a.Plus(b).Swap(b, c), a.Only(b)
		equal, fits := true, true
		for _, name := range []string{"a", "b", "c", "d"} {
			x, y, z := a.Of(name), b.Of(name), c.Of(name)
			equal = equal && x == y
			named := b.Has(name)
			fits = fits && (!named || x >= y)
			if plus.Of(name) != x+y || minus.Of(name) != x-y || most.Of(name) != max(x, y) || swapped.Of(name) != x+z {
				t.Fatalf("%s of %v, %v, %v: + %v, - %v, max %v, swap %v", name, a, b, c, plus, minus, most, swapped)
			}
			if want := map[bool]int64{true: x}[named]; only.Of(name) != want {
				t.Fatalf("Only(%v, %v) returns %v", a, b, only)
			}
		}
		if slices.ContainsFunc(swapped, isZero) && !b.Equal(c) {
			t.Fatalf("a sum names what it has nothing of: %v", swapped)
		}
		if len(swapped) == 0 && swapped != nil {
			t.Fatalf("a sum of nothing has no value, and is not nil: %v, %v, %v", a, b, c)
		}
		if a.Equal(b) != equal || a.Fits(b) != fits || !a.Equal(a.Plus(nil)) {
			t.Fatalf("%v and %v: equal %v, fits %v", a, b, a.Equal(b), a.Fits(b))
		}
		if after := fmt.Sprint([]amounts.List{a, b, c}); after != before {
			t.Fatalf("amounts changed from %s to %s", before, after)
		}
	})
}
