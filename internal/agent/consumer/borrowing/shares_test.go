package borrowing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/internal/amounts"
)

func cpu(n int64) amounts.List { return amounts.List{{Resource: "cpu", Value: n}} }

func TestFindOveruse(t *testing.T) {
	of := func(n int64, namespaces ...string) claim { return claim{namespaces, cpu(n)} }
	for _, c := range []struct {
		name   string
		claims []claim
		used   map[string]int64
		want   string
	}{
		{"each within its own", []claim{of(4, "a"), of(4, "b")}, map[string]int64{"a": 4, "b": 3}, "[]"},
		{"one beyond its own, though there is room", []claim{of(4, "a"), of(4, "b")}, map[string]int64{"a": 5}, "[{a cpu 4}]"},
		{"without a claim", []claim{of(4, "a")}, map[string]int64{"a": 1, "b": 1}, "[{b cpu 0}]"},
		{"by what others reserve for it", []claim{of(4, "a", "b"), of(1, "b")}, map[string]int64{"a": 4, "b": 1}, "[]"},
		{"together", []claim{of(4, "a", "b"), of(1, "b"), of(9, "c")}, map[string]int64{"a": 3, "b": 3, "c": 1},
			"[{a cpu 2}]"},
		{"a fair share of what is shared", []claim{of(9, "a", "b"), of(1, "b")}, map[string]int64{"a": 6, "b": 6},
			"[{a cpu 5} {b cpu 5}]"},
		{"who uses more takes nothing from who uses less", []claim{of(10, "a"), {nil, cpu(1000)}, of(4000, "b")},
			map[string]int64{"a": 6000, "b": 4100}, "[{a cpu 910}]"},
		{"its own claim is not for others", []claim{of(4, "a", "b"), of(1, "b")}, map[string]int64{"a": 5},
			"[{a cpu 4}]"},
		{"for any namespace", []claim{of(4, "a"), {nil, cpu(2)}}, map[string]int64{"a": 5, "b": 1}, "[]"},
		{"each beyond its own", []claim{of(1, "a"), of(1, "b")}, map[string]int64{"a": 2, "b": 3},
			"[{a cpu 1} {b cpu 1}]"},
		{"another resource", []claim{of(4, "a"), {[]string{"b"}, amounts.List{{Resource: "memory", Value: 1}}}},
			map[string]int64{"b": 1}, "[{b cpu 0}]"},
	} {
		used := map[string]amounts.List{}
		for name, n := range c.used {
			used[name] = append(cpu(n), amounts.Amount{Resource: "pods", Value: 1})
		}
		if got := fmt.Sprint(findOveruse(c.claims, used)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What several claims admit counts for the first, unless another namespace has no other claim.
func TestCoveredUse(t *testing.T) {
	of := func(n int64, namespaces ...string) claim { return claim{namespaces, cpu(n)} }
	for _, c := range []struct {
		claims []claim
		used   map[string]int64
		want   string
	}{
		{[]claim{of(4, "a"), of(4, "b")}, map[string]int64{"a": 5, "b": 3, "c": 1}, "[[{cpu 4}] [{cpu 3}]]"},
		{[]claim{of(4, "a"), of(4, "a")}, map[string]int64{"a": 5}, "[[{cpu 4}] [{cpu 1}]]"},
		{[]claim{of(4, "a", "b"), of(4, "a")}, map[string]int64{"a": 4, "b": 3}, "[[{cpu 4}] [{cpu 3}]]"},
		{[]claim{of(4, "a"), {nil, cpu(4)}}, map[string]int64{"a": 5, "c": 1}, "[[{cpu 4}] [{cpu 2}]]"},
		{[]claim{{nil, cpu(4)}, of(4, "a")}, map[string]int64{"a": 3}, "[[{cpu 0}] [{cpu 3}]]"},
		{[]claim{of(4, "a"), {[]string{"a"}, amounts.List{{Resource: "memory", Value: 1}}}}, map[string]int64{"a": 1},
			"[[{cpu 1} {memory 0}] [{cpu 0} {memory 0}]]"},
	} {
		used := map[string]amounts.List{}
		for name, n := range c.used {
			used[name] = cpu(n)
		}
		if got := fmt.Sprint(coveredUse(c.claims, used)); got != c.want {
			t.Errorf("%v of %v: %s, want %s", used, c.claims, got, c.want)
		}
	}
}

// What no claim covers is as little as possible: some namespaces use that much more than all claims that admit any
// of them (Hall's theorem). Each keeps at least what only it may use.
func TestOveruseIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := []string{"a", "b", "c", "d"}
		var claims []claim
		for range rapid.IntRange(0, 5).Draw(t, "claims") {
			c := claim{size: cpu(rapid.Int64Range(0, 6).Draw(t, "size"))}
			if !rapid.Bool().Draw(t, "any") {
				c.namespaces = rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[string]).Draw(t, "namespaces")
			}
			claims = append(claims, c)
		}
		used := map[string]amounts.List{}
		for _, name := range all {
			used[name] = cpu(rapid.Int64Range(0, 8).Draw(t, name))
		}
		beyond := func(names []string) (sum int64) {
			for _, name := range names {
				sum += used[name].Of("cpu")
			}
			for _, c := range claims {
				if slices.ContainsFunc(names, c.admits) {
					sum -= c.size.Of("cpu")
				}
			}
			return sum
		}
		most := int64(0)
		for set := range 1 << len(all) {
			var names []string
			for i, name := range all {
				if set>>i&1 == 1 {
					names = append(names, name)
				}
			}
			most = max(most, beyond(names))
		}
		var found int64
		for _, o := range findOveruse(append(claims, claim{[]string{}, cpu(1)}), used) {
			use, own := used[o.namespace].Of("cpu"), int64(0)
			for _, c := range claims {
				if len(c.namespaces) == 1 && c.admits(o.namespace) {
					own += c.size.Of("cpu")
				}
			}
			if o.covered >= use || o.covered < own {
				t.Fatalf("%v: of %d, with %d of its own", o, use, own)
			}
			found += use - o.covered
		}
		if found != most {
			t.Fatalf("%d is not covered, want %d: %v of %v", found, most, used, claims)
		}
	})
}
