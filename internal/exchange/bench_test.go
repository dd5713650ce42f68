//go:build unix

package exchange_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// BenchmarkExchangeHoldMemory is the market alone: holds by 64 consumers on 100 providers, each
// with the kept explanation of a decision, over a journal that costs nothing but its hashes.
func BenchmarkExchangeHoldMemory(b *testing.B) {
	x := start(b, memorytest.New(), exchange.Options{})
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
	size, err := amounts.ParseRequest("resources", request.Resources)
	if err != nil {
		b.Fatal(err)
	}
	decision := api.Decision{Considered: 100, Candidates: 90,
		Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for i := range 5 {
		decision.Top = append(decision.Top, api.Scored{Cluster: providers[i],
			Score: 900_000, Scores: []api.Score{{Scorer: "headroom", Value: 900_000}, {Scorer: "preference"}}})
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
			d.Chosen, d.Sequence = providers[i%100], api.Sequence{Incarnation: 1, Number: 1}
			if _, err := x.Do(b.Context(), &market.Hold{
				ID: fmt.Sprintf("r-%024d", i), Key: fmt.Sprintf("key-%d", i), Digest: "0123456789abcdef0123456789abcdef",
				Consumer: "consumer-" + strconv.Itoa(i%consumers), Request: &request, Pool: api.GeneralPool, Size: size,
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

// cpuTime is what the process has used, of all cores: it says more than the clock on a machine that
// others use, too.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkObserve is advertisements as they come in: 100 providers with 50 commitments each, of
// which something small has changed since the last, as what their own pods take; every fifth time
// only the lease is renewed.
func BenchmarkObserve(b *testing.B) {
	x := start(b, newMemory(), exchange.Options{})
	var mu [100]sync.Mutex
	measured := make([]*market.Measured, len(mu))
	for i := range measured {
		accounts := map[string]api.AccountUse{}
		for c := range 10 {
			use := api.AccountUse{Used: resources("cpu", "3", "memory", "3Gi"), Commitments: map[string]api.Resources{}}
			for r := range 5 {
				use.Commitments[fmt.Sprintf("r-%d-%d", c, r)] = resources("cpu", "2", "memory", "4Gi")
			}
			accounts["consumer-"+strconv.Itoa(c)] = use
		}
		all := resources("cpu", "1000", "memory", "4000Gi", "pods", "5000", "ephemeral-storage", "9000Gi")
		var err error
		if measured[i], err = market.Measure(api.Measurement{
			Sequence: api.Sequence{Incarnation: 1, Number: 1}, Terms: &api.Terms{},
			Pools: map[string]api.Pool{api.GeneralPool: {Capacity: all, Allocatable: all, Shared: all, Accounts: accounts}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	allocated := []api.Resources{resources("cpu", "20", "memory", "40Gi", "pods", "300"),
		resources("cpu", "21", "memory", "42Gi", "pods", "301")}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	spent := cpuTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			turn := int(n.Add(1))
			i := turn % len(mu)
			mu[i].Lock()
			delta := api.MeasurementDelta{Base: measured[i].Sequence, Sequence: measured[i].Sequence}
			delta.Sequence.Number++
			if turn%5 > 0 {
				delta.Pools = map[string]*api.PoolDelta{api.GeneralPool: {Allocated: allocated[turn%2]}}
			}
			next, err := measured[i].Change(delta)
			if err == nil {
				err = x.Observe(b.Context(), "provider-"+strconv.Itoa(i), next, true)
			}
			if err != nil {
				b.Error(err)
			}
			measured[i] = next
			mu[i].Unlock()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "advertisements/s")
	b.ReportMetric((cpuTime(b)-spent).Seconds()*1e6/float64(b.N), "cpu-µs/op")
}

// BenchmarkNotice is what a broker with 10,000 members does every second, when nothing is new.
func BenchmarkNotice(b *testing.B) {
	s := market.New("")
	m := measured(b, 1, "8")
	for i := range 10_000 {
		cluster := "cluster-" + strconv.Itoa(i)
		s.Apply(market.Event{Time: noon, Member: &market.Member{Cluster: cluster, State: api.MemberActive, Key: "k"}})
		if err := s.Observe(cluster, m, noon, true); err != nil {
			b.Fatal(err)
		}
	}
	s.Wake(noon)
	for now := noon; b.Loop(); now = noon + 1 {
		out, err := market.Decide(s, market.Notice{}, now)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range out.Events {
			s.Apply(e)
		}
	}
}
