package match_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// BenchmarkDecide reports decisions per second of CPU time, of all threads together, so that a busy
// machine does not show. One cluster in ten does not fit; one in ten is stale.
func BenchmarkDecide(b *testing.B) {
	const where = `region == "eu" && "amd64" in architectures && allocatable.cpu >= 16`
	for _, size := range []int{1_000, 10_000} {
		view := federation(b, size)
		b.Run(fmt.Sprintf("clusters=%d", size), func(b *testing.B) {
			engine := match.New()
			a := ask(b, engine, api.Request{})
			measure(b, func() { engine.Decide(view, a, now) })
		})
		b.Run(fmt.Sprintf("clusters=%d/where=cached", size), func(b *testing.B) {
			engine := match.New()
			a := ask(b, engine, api.Request{Where: where})
			measure(b, func() { engine.Decide(view, a, now) })
		})
		b.Run(fmt.Sprintf("clusters=%d/fits", size), func(b *testing.B) {
			engine := match.New()
			a := ask(b, engine, api.Request{Where: where, Resources: of("cpu", "100", "memory", "64Gi")})
			measure(b, func() { engine.Fits(view, a, nil, match.MaxFits, now) })
		})
		b.Run(fmt.Sprintf("clusters=%d/where=cold", size), func(b *testing.B) {
			engine := match.New()
			a := ask(b, engine, api.Request{Where: where})
			measure(b, func() { a.Forget(); engine.Decide(view, a, now) })
		})
	}
}

// federation is a view of so many providers, as an ordinary one may look.
func federation(tb testing.TB, size int) *market.View {
	tb.Helper()
	s := market.New("")
	for i := range size {
		c := lends("cpu", fmt.Sprint(64+i%97), "memory", "256Gi", "pods",
			"500", "ephemeral-storage", "1Ti", "nvidia.com/gpu", "8")
		c.Properties = api.Properties{
			Region: []string{"eu", "eu", "us"}[i%3], Zones: []string{"a", "b"}, Architectures: []string{"amd64", "arm64"},
			Kubernetes: "v1.35.4", Labels: map[string]string{"tier": "gold"},
		}
		switch i % 10 {
		case 3:
			pool := c.Pools[api.GeneralPool]
			pool.Allocated = of("cpu", fmt.Sprint(61+i%97), "memory", "250Gi")
			c.Pools[api.GeneralPool] = pool
		case 7:
			c.Silent.Duration = market.Lease
		}
		put(tb, s, fmt.Sprintf("cluster-%05d", i), c, 1)
	}
	return s.Publish(nil)
}

func ask(tb testing.TB, e *match.Engine, r api.Request) match.Ask {
	tb.Helper()
	if r.Resources == nil {
		r.Resources = of("cpu", "4", "memory", "8Gi")
	}
	a, err := e.Ask("cluster-00000", r)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func measure(b *testing.B, decide func()) {
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		decide()
	}
	b.ReportMetric(float64(b.N)/(cpuTime(b)-start).Seconds(), "decisions/cpu-s")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
