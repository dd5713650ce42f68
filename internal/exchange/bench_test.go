package exchange_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memory"
	"github.com/bourse-dev/bourse/internal/market"
)

// BenchmarkExchangeHoldMemory is the market alone: holds by 64 consumers on 100 providers, each
// with the kept explanation of a decision, over a journal that costs nothing but its hashes.
func BenchmarkExchangeHoldMemory(b *testing.B) {
	x := start(b, memory.New(), exchange.Options{})
	providers := make([]string, 100)
	for i := range providers {
		providers[i] = "provider-" + strconv.Itoa(i)
		x.join(providers[i])
		x.advertise(providers[i], 1, "1000000")
	}
	const consumers = 64
	for i := range consumers {
		x.join("consumer-" + strconv.Itoa(i))
	}
	request := api.Request{Resources: resources("cpu", "2", "memory", "4Gi"), Where: `region == "eu"`}
	size, err := market.Need("resources", request.Resources)
	if err != nil {
		b.Fatal(err)
	}
	decision := api.Decision{Considered: 100, Candidates: 90, Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for i := range 5 {
		decision.Top = append(decision.Top, api.Scored{Cluster: providers[i], Score: 900_000, Scores: map[string]int64{"headroom": 900_000, "preference": 0}})
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(consumers / 2)
	spent := cpuTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			d := decision
			if _, err := x.Do(b.Context(), market.Hold{
				ID: fmt.Sprintf("r-%024d", i), Key: fmt.Sprintf("key-%d", i), Digest: "0123456789abcdef0123456789abcdef",
				Consumer: "consumer-" + strconv.Itoa(i%consumers), Request: request, Pool: api.GeneralPool, Size: size,
				Duration: 8 * time.Hour, Decision: &d,
				Candidates: []string{providers[i%100], providers[(i+1)%100], providers[(i+2)%100]},
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "holds/s")
	b.ReportMetric((cpuTime(b)-spent).Seconds()*1e6/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(x.Stats().Events)/float64(x.Stats().Batches), "events/batch")
}

// cpuTime is what the process has used, of all cores: it says more than the clock on a machine that others use, too.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
