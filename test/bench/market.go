package main

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// consumers is how many hold at the same time, here and over mTLS.
const consumers = 64

// live is how many reservations live in one market at a time: what one broker is built for.
const live = 100_000

// marketAlone measures holds, each with the kept explanation of a decision, through an exchange whose
// journal costs no more than its encoding and its hashes: the median of five markets that fill up.
func marketAlone(ctx context.Context, b *bench) ([]Figure, error) {
	defer broker.CollectRarely()()
	var rates, cores []float64
	for range 5 {
		rate, core, err := fill(ctx, b.count(live))
		if err != nil {
			return nil, err
		}
		rates, cores = append(rates, rate), append(cores, core)
		runtime.GC() // the market that was
	}
	slices.Sort(rates)
	slices.Sort(cores)
	return []Figure{
		atLeast(100_000, "market alone, memory journal: holds", rates[2], "/s"),
		plain("market alone, per core", cores[2], "/s and core"),
	}, nil
}

// fill lets a new market make so many holds and returns the rate, by the wall's time and by that of
// the cores. The first tenth warms up.
func fill(ctx context.Context, holds int) (rate, core float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	x, err := exchange.Open(ctx, memorytest.New(), exchange.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		stop()
		return 0, 0, err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run(ctx) })
	defer running.Wait()
	defer stop()
	h := newHolder(x)
	if err := h.found(ctx); err != nil {
		return 0, 0, err
	}
	if _, _, err := h.hold(ctx, holds/10); err != nil {
		return 0, 0, err
	}
	return h.hold(ctx, holds)
}

// holder holds capacity for many consumers, without anything around the market.
type holder struct {
	market    *exchange.Exchange
	providers [100]string
	consumers [consumers]string
	request   api.Request
	size      amounts.List
	decision  api.Decision
	n         atomic.Int64
}

func newHolder(x *exchange.Exchange) *holder {
	h := &holder{market: x, request: api.Request{Resources: resources("cpu", "2", "memory", "4Gi"),
		Where: `region == "eu"`}}
	for i := range h.providers {
		h.providers[i] = "provider-" + strconv.Itoa(i)
	}
	for i := range h.consumers {
		h.consumers[i] = "consumer-" + strconv.Itoa(i)
	}
	h.decision = api.Decision{Considered: 100, Candidates: 90,
		Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for _, p := range h.providers[:5] {
		h.decision.Top = append(h.decision.Top, api.Scored{Cluster: p,
			Score: 900_000, Scores: []api.Score{{Scorer: "headroom", Value: 900_000}, {Scorer: "preference"}}})
	}
	return h
}

// found makes the members, and lets the providers advertise more than will be asked.
func (h *holder) found(ctx context.Context) (err error) {
	if h.size, err = amounts.ParseRequest("resources", h.request.Resources); err != nil {
		return err
	}
	has := resources("cpu", "100000000", "memory", "1000Ti")
	measured, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: 1}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: has, Allocatable: has, Shared: has}},
	})
	if err != nil {
		return err
	}
	for _, p := range h.providers {
		if _, err := h.market.Do(ctx, market.Pin{Cluster: p, Key: "key"}); err != nil {
			return err
		}
		if err := h.market.Observe(ctx, p, measured, true); err != nil {
			return err
		}
	}
	for _, c := range h.consumers {
		if _, err := h.market.Do(ctx, market.Pin{Cluster: c, Key: "key"}); err != nil {
			return err
		}
	}
	return nil
}

// hold holds until there are so many, and returns the rate.
func (h *holder) hold(ctx context.Context, until int) (rate, core float64, err error) {
	before, begin := h.n.Load(), time.Now()
	first, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	var all errgroup.Group
	for i := range consumers {
		all.Go(func() error {
			for {
				n := h.n.Add(1)
				if n > int64(until) {
					return nil
				}
				if err := h.holdOnce(ctx, i, int(n)); err != nil {
					return err
				}
			}
		})
	}
	if err := all.Wait(); err != nil {
		return 0, 0, err
	}
	took := time.Since(begin)
	h.n.Store(int64(until))
	last, err := cpuTime()
	n := float64(int64(until) - before)
	return n / took.Seconds(), n / (last - first).Seconds(), err
}

func (h *holder) holdOnce(ctx context.Context, consumer, i int) error {
	decision := h.decision
	decision.Chosen, decision.Sequence = h.providers[i%100], api.Sequence{Incarnation: 1, Number: 1}
	_, err := h.market.Do(ctx, &market.Hold{
		ID: "r-" + strconv.Itoa(1e15+i), Key: strconv.Itoa(i), Digest: "0123456789abcdef0123456789abcdef",
		Consumer: h.consumers[consumer], Request: &h.request, Pool: api.GeneralPool, Size: h.size,
		Duration: 8 * time.Hour, Decision: &decision,
		Candidates: []string{h.providers[i%100], h.providers[(i+1)%100], h.providers[(i+2)%100]},
	})
	return err
}
