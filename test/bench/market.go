package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memory"
	"github.com/bourse-dev/bourse/internal/market"
)

// consumers is how many hold at the same time, here and over mTLS.
const consumers = 64

// marketAlone measures holds, each with the kept explanation of a decision, through an exchange whose
// journal costs no more than its encoding and its hashes.
func marketAlone(ctx context.Context, b *bench) ([]Figure, error) {
	ctx, stop := context.WithCancel(ctx)
	x, err := exchange.Open(ctx, memory.New(), exchange.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		stop()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run(ctx) })
	defer running.Wait()
	defer stop()
	h := newHolder(x)
	if err := h.found(ctx); err != nil {
		return nil, err
	}
	if _, _, err := h.hold(ctx, b.lasts(time.Second)); err != nil {
		return nil, err
	}
	rate, core, err := h.hold(ctx, b.lasts(4*time.Second))
	if err != nil {
		return nil, err
	}
	return []Figure{
		atLeast(100_000, "market alone, memory journal: holds", rate, "/s"),
		plain("market alone, per core", core, "/s and core"),
	}, nil
}

// holder holds capacity for many consumers, without anything around the market.
type holder struct {
	market    *exchange.Exchange
	providers [100]string
	request   api.Request
	size      market.Amounts
	decision  api.Decision
	n         atomic.Int64
}

func newHolder(x *exchange.Exchange) *holder {
	h := &holder{market: x, request: api.Request{Resources: resources("cpu", "2", "memory", "4Gi"), Where: `region == "eu"`}}
	for i := range h.providers {
		h.providers[i] = "provider-" + strconv.Itoa(i)
	}
	h.decision = api.Decision{Considered: 100, Candidates: 90, Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for _, p := range h.providers[:5] {
		h.decision.Top = append(h.decision.Top, api.Scored{Cluster: p, Score: 900_000, Scores: map[string]int64{"headroom": 900_000, "preference": 0}})
	}
	return h
}

// found makes the members, and lets the providers advertise more than will be asked.
func (h *holder) found(ctx context.Context) (err error) {
	if h.size, err = market.Need("resources", h.request.Resources); err != nil {
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
	for i := range consumers {
		if _, err := h.market.Do(ctx, market.Pin{Cluster: "consumer-" + strconv.Itoa(i), Key: "key"}); err != nil {
			return err
		}
	}
	return nil
}

// hold holds for some time and returns the rate, by the wall's time and by that of the cores.
func (h *holder) hold(ctx context.Context, lasts time.Duration) (rate, core float64, err error) {
	before, first, begin := h.n.Load(), time.Duration(0), time.Now()
	if first, err = cpuTime(); err != nil {
		return 0, 0, err
	}
	var all sync.WaitGroup
	failed := make(chan error, consumers)
	for i := range consumers {
		all.Go(func() {
			for time.Since(begin) < lasts {
				if err := h.holdOnce(ctx, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return 0, 0, err
	}
	took := time.Since(begin)
	last, err := cpuTime()
	n := float64(h.n.Load() - before)
	return n / took.Seconds(), n / (last - first).Seconds(), err
}

func (h *holder) holdOnce(ctx context.Context, consumer int) error {
	i := int(h.n.Add(1))
	decision := h.decision
	_, err := h.market.Do(ctx, market.Hold{
		ID: fmt.Sprintf("r-%016d", i), Key: strconv.Itoa(i), Digest: "0123456789abcdef0123456789abcdef",
		Consumer: "consumer-" + strconv.Itoa(consumer), Request: h.request, Pool: api.GeneralPool, Size: h.size,
		Duration: 8 * time.Hour, Decision: &decision,
		Candidates: []string{h.providers[i%100], h.providers[(i+1)%100], h.providers[(i+2)%100]},
	})
	return err
}
