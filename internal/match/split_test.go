package match_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

// The fewest equal parts that find as many clusters, of the whole size, to the last unit.
func TestSplit(t *testing.T) {
	v := viewOf(t, map[string]cluster{"rome": {SharesNothing: true},
		"milan": lends("cpu", "10", "memory", "64Gi"), "paris": lends("cpu",
			"9", "memory", "64Gi"), "oslo": lends("cpu", "4", "memory", "64Gi")})
	engine := match.New()
	for name, c := range map[string]struct {
		request api.Request
		parts   []int64 // of milli-cpu
	}{
		"one is enough":         {api.Request{Resources: of("cpu", "10"), Split: 3}, []int64{10000}},
		"two":                   {api.Request{Resources: of("cpu", "18"), Split: 3}, []int64{9000, 9000}},
		"three that do not fit": {api.Request{Resources: of("cpu", "12001m", "memory", "180Gi"), Split: 3}, nil},
		"three that just fit": {api.Request{Resources: of("cpu", "12", "memory", "180Gi"), Split: 3},
			[]int64{4000, 4000, 4000}},
		"three, uneven": {api.Request{Resources: of("cpu", "11999m", "memory", "180Gi"), Split: 3},
			[]int64{4000, 4000, 3999}},
		"two are not allowed":     {api.Request{Resources: of("cpu", "18")}, nil},
		"two do not do":           {api.Request{Resources: of("cpu", "20"), Split: 8}, nil},
		"one thing cannot be two": {api.Request{Resources: of("cpu", "18", "memory", "1"), Split: 3}, nil},
		"a pod is not divided":    {api.Request{Resources: of("cpu", "18"), PodShape: of("cpu", "10"), Split: 3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ask, err := engine.Ask("rome", c.request)
			if err != nil {
				t.Fatal(err)
			}
			parts, ranking := engine.Split(v, ask, now)
			if len(parts) != len(c.parts) || len(parts) > len(ranking.Providers) {
				t.Fatalf("%v of %v", parts, ranking)
			}
			for i, want := range c.parts {
				if got := parts[i].Of("cpu"); got != want {
					t.Errorf("part %d has %d, want %d", i, got, want)
				}
			}
			if n := ranking.Decision.Parts; len(parts) > 1 && n != len(parts) {
				t.Errorf("explained as %d parts", n)
			}
			if d := ranking.Decision; (d.Chosen != "") != (parts != nil) || (ranking.Part != nil) != (d.Parts > 1) {
				t.Errorf("%q is chosen for one of %d parts, each %v; the parts are %v", d.Chosen, d.Parts, ranking.Part, parts)
			}
		})
	}
}
