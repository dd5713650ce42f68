package grant

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

func quantities(pairs ...string) map[corev1.ResourceName]resource.Quantity {
	out := map[corev1.ResourceName]resource.Quantity{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// While nothing more may be granted, what is granted falls, and never rises.
func TestLesser(t *testing.T) {
	before := quantities("cpu", "4", "memory", "8Gi", "pods", "110")
	for name, c := range map[string]struct {
		grant, want map[corev1.ResourceName]resource.Quantity
	}{
		"less of one": {quantities("cpu", "2", "memory", "8Gi", "pods", "110"),
			quantities("cpu", "2", "memory", "8Gi", "pods", "110")},
		"more of one": {quantities("cpu", "6", "memory", "1Gi", "pods", "200"),
			quantities("cpu", "4", "memory", "1Gi", "pods", "110")},
		"another one":     {quantities("cpu", "4", "memory", "8Gi", "pods", "110", "nvidia.com/gpu", "1"), before},
		"nothing is left": {quantities("cpu", "0", "memory", "0", "pods", "0"), quantities("cpu", "0", "memory", "0", "pods", "0")},
	} {
		if got := lesser(c.grant, before); !equality.Semantic.DeepEqual(map[corev1.ResourceName]resource.Quantity(got),
			c.want) {
			t.Errorf("%s: granted %v, want %v", name, got, c.want)
		}
	}
}

// A consumer whose slice asks for less gets less, but never more, nor nothing.
func TestWished(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	owed := list("4", "4Gi")
	for name, c := range map[string]struct{ wish, want corev1.ResourceList }{
		"less": {list("2", "4Gi"), list("2", "4Gi")}, "more": {list("8", "3Gi"), list("4", "3Gi")},
		"nothing": {list("0", "4Gi"), owed}, "none": {nil, owed},
		"another": {corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, owed},
	} {
		if got := wished(owed, c.wish); !equality.Semantic.DeepEqual(corev1.ResourceList(got), c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A grant is what is owed: what was granted once goes to 0 and never away, and there is always room for pods.
func TestGrants(t *testing.T) {
	for name, c := range map[string]struct {
		owed, before, want map[corev1.ResourceName]resource.Quantity
	}{
		"the first":          {quantities("cpu", "4"), nil, quantities("cpu", "4", "pods", "110")},
		"a large one":        {quantities("cpu", "64"), nil, quantities("cpu", "64", "pods", "1024")},
		"pods were reserved": {quantities("cpu", "4", "pods", "7"), nil, quantities("cpu", "4", "pods", "7")},
		"less than before":   {quantities("cpu", "2"), quantities("cpu", "6", "pods", "110"), quantities("cpu", "2", "pods", "110")},
		"a resource less": {quantities("cpu", "2"), quantities("cpu", "2", "nvidia.com/gpu", "1"),
			quantities("cpu", "2", "nvidia.com/gpu", "0", "pods", "110")},
		"nothing is left": {nil, quantities("cpu", "2", "memory", "1Gi", "pods", "110"),
			quantities("cpu", "0", "memory", "0", "pods", "0")},
		"nothing there ever":   {nil, nil, quantities("pods", "0")},
		"what a consumer made": {quantities("cpu", "1"), quantities("cpu", "1000"), quantities("cpu", "1", "pods", "110")},
	} {
		t.Run(name, func(t *testing.T) {
			got := grantOf(api.Resources(c.owed), c.before)
			for resource, want := range c.want {
				if have := got[resource]; have.Cmp(want) != 0 {
					t.Errorf("%s %s, want %s", have.String(), resource, want.String())
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("granted %v, want %v", got, c.want)
			}
		})
	}
}

// A consumer copies the text of a grant to each of its reservations: it stays short however many these are.
func TestAGrantNamesAFewReservations(t *testing.T) {
	var many []string
	for range 2000 {
		many = append(many, "r-abcdefghijklmnop")
	}
	for _, c := range []struct{ n, most int }{{1, 20}, {8, 160}, {2000, 180}} {
		if text := firstFew(many[:c.n]); len(text) > c.most || !strings.Contains(text, many[0]) {
			t.Errorf("of %d reservations the text is %.300q", c.n, text)
		}
	}
}
