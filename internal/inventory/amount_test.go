package inventory

import (
	"math/big"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/internal/amounts"
)

func TestQuantitiesNeverWrap(t *testing.T) {
	const most = int64(implausible)
	sum := resource.MustParse("9223372036854775807")
	sum.Add(sum) // beyond what parsing allows: sums of containers get there
	for _, c := range []struct {
		name corev1.ResourceName
		q    resource.Quantity
		n    int64
		ok   bool
	}{
		{"cpu", resource.MustParse("4"), 4000, true},
		{"cpu", resource.MustParse("250m"), 250, true},
		{"cpu", resource.MustParse("100u"), 1, true},
		{"cpu", resource.MustParse("9007199254740"), 9007199254740000, true},
		{"cpu", resource.MustParse("9007199254741"), most, false},
		{"cpu", resource.MustParse("9223372036854775807"), most, false},
		{"cpu", resource.MustParse("1e300"), most, false},
		{"cpu", resource.MustParse("-1m"), 0, false},
		{"cpu", sum, most, false},
		{"memory", resource.MustParse("8Pi"), most, true},
		{"memory", resource.MustParse("9Pi"), most, false},
		{"memory", resource.MustParse("8Ei"), most, false},
		{"memory", resource.MustParse("128974848000m"), 128974848, true},
		{"memory", resource.MustParse("-8Ei"), 0, false},
		{"memory", sum, most, false},
		{"example.com/thing", resource.MustParse("1500m"), 2, true},
		{"example.com/thing", resource.MustParse("0"), 0, true},
	} {
		if n, ok := within(most, c.name, c.q); n != c.n || ok != c.ok {
			t.Errorf("%s of %s: got %d, %v, want %d, %v", c.q.String(), c.name, n, ok, c.n, c.ok)
		}
	}
}

// A sum of any size is exact, in any order of additions and subtractions.
func TestSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.Uint64()).Draw(t, "amounts")
		gone := rapid.IntRange(0, len(numbers)).Draw(t, "gone")
		s, want := sum{}, new(big.Int)
		for _, n := range numbers {
			s = s.plus(sum{low: n})
		}
		for _, n := range numbers[:gone] {
			s = s.minus(sum{low: n})
		}
		for _, n := range numbers[gone:] {
			want.Add(want, new(big.Int).SetUint64(n))
		}
		saturated := int64(amounts.Max)
		if want.Cmp(big.NewInt(saturated)) <= 0 {
			saturated = want.Int64()
		}
		if s.int64() != saturated {
			t.Fatalf("got %d, want %d", s.int64(), saturated)
		}
	})
}
