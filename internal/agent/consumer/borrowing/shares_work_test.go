package borrowing

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/bourse-dev/bourse/internal/amounts"
)

// Four times as many claims cost about four times as much, whether they admit one namespace or many sets of some.
func TestWorkOfManyClaims(t *testing.T) {
	for name, namespaces := range map[string]func(i int) []string{
		"one namespace": func(int) []string { return []string{"a"} },
		"sets of some": func(i int) (set []string) {
			for n := range 12 {
				if (i+1)>>n&1 == 1 {
					set = append(set, fmt.Sprint("n", n))
				}
			}
			return set
		},
	} {
		cost := func(count int) (bytes uint64) {
			var claims []claim
			used := map[string]amounts.List{"a": cpu(int64(count))}
			for i := range count {
				claims = append(claims, claim{namespaces(i), cpu(1)})
				used[fmt.Sprint("n", i%12)] = cpu(int64(count) / 12)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			coveredUse(claims, used)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		if few, many := cost(500), cost(2000); many > 8*few {
			t.Errorf("%s: 500 claims allocate %d bytes, and 2,000 %d", name, few, many)
		}
	}
}
