package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/match"
)

const (
	// fitClusters is the number of clusters, fitPools that of VirtualNodePools. Demand of each pool changes every
	// fitEvery, so that it asks what fits; each cluster advertises every advertisedEvery.
	fitClusters, fitPools, fitExpressions = 10_000, 1_000, 300
	fitEvery, advertisedEvery             = 10, 30 // seconds
)

// fits measures what VirtualNodePools ask, on one core: how much of a request fits where.
func fits(_ context.Context, b *bench) ([]Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer broker.CollectRarely()()
	d, err := newDecider(fitClusters, where)
	if err != nil {
		return nil, err
	}
	pods := []amounts.List{{{Resource: "cpu", Value: 500}}, {{Resource: "cpu", Value: 2000}}}
	same, err := perCore(b.lasts(3*time.Second), func() (func() int, error) {
		return func() int {
			for range 10 {
				d.engine.Fits(d.view, d.ask, pods, match.MaxFits, d.now)
			}
			return 10
		}, nil
	})
	if err != nil {
		return nil, err
	}
	asked, changed := 0, 0
	second := func() int { // what the pools ask in a second, and which clusters advertise in it
		d.number++
		for range fitClusters / advertisedEvery {
			changed++
			if err = d.put(d.books, changed%fitClusters); err != nil {
				return 0
			}
		}
		d.view = d.books.Publish(d.view)
		for range fitPools / fitEvery {
			asked++
			r := d.request
			r.Where = fmt.Sprintf("%s && allocatable.memory > %d.0", where, asked%fitExpressions)
			r.Resources = resources("cpu", fmt.Sprint(1+asked%60), "memory", "16Gi")
			ask, wrong := d.engine.Ask("cluster-00000", r)
			if wrong != nil {
				err = wrong
				return 0
			}
			d.engine.Fits(d.view, ask, pods, match.MaxFits, d.now)
		}
		return 1
	}
	for range b.count(fitExpressions * fitEvery / fitPools * 10) { // each expression was asked before
		second()
	}
	rate, wrong := perCore(b.lasts(6*time.Second), func() (func() int, error) { return second, err })
	if err != nil || wrong != nil {
		return nil, fmt.Errorf("%w, %w", err, wrong)
	}
	return []Figure{
		atLeast(1_000, "what fits, 10,000 clusters", same, "/s and core"),
		atMost(0.5, "broker's CPU for 1,000 VirtualNodePools, 300 expressions", 1/rate, "cores"),
	}, nil
}
