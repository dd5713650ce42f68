//go:build unix

package match_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
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
