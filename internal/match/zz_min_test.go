package match_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

func TestZMin(t *testing.T) {
	const where = `region == "eu" && "amd64" in architectures && allocatable.cpu >= 16`
	for _, size := range []int{1000, 10000} {
		view := federation(t, size)
		for _, w := range []string{"", where, "cold"} {
			e := match.New()
			r := api.Request{Where: w}
			if w == "cold" {
				r.Where = where
			}
			a := ask(t, e, r)
			var ds []time.Duration
			n := 3000
			if size == 10000 {
				n = 300
			}
			if w == "cold" {
				n /= 10
			}
			for range n {
				if w == "cold" {
					a.Forget()
				}
				s := time.Now()
				e.Decide(view, a, now)
				ds = append(ds, time.Since(s))
			}
			slices.Sort(ds)
			t.Log(size, w, "min", ds[0], "p10", ds[len(ds)/10], "p50", ds[len(ds)/2], 1e9/float64(ds[0]), 1e9/float64(ds[len(ds)/10]))
		}
	}
}
