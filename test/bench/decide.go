package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// decide measures decisions, each with its explanation, on one core, garbage collection included.
func decide(_ context.Context, b *bench) ([]Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer broker.CollectRarely()()
	var figures []Figure
	for _, m := range []struct {
		clusters int
		where    string
		cold     bool
		goal     float64
		name     string
	}{
		{1_000, "", false, 20_000, "decisions, 1,000 clusters"},
		{10_000, "", false, 2_000, "decisions, 10,000 clusters"},
		{1_000, where, false, 10_000, "decisions, 1,000 clusters, where cached"},
		{1_000, where, true, 1_000, "decisions, 1,000 clusters, where cold"},
	} {
		d, err := newDecider(m.clusters, m.where)
		if err != nil {
			return nil, err
		}
		measure := d.warm
		if m.cold {
			measure = d.cold
		}
		runtime.GC()
		rate, err := measure(b.lasts(3 * time.Second))
		if err != nil {
			return nil, err
		}
		figures = append(figures, atLeast(m.goal, m.name, rate, "/s and core"))
	}
	return figures, nil
}

const where = `region == "eu" && "amd64" in architectures && allocatable.cpu >= 16`

// decider is a federation as an ordinary one may look, and what one consumer asks of it.
type decider struct {
	engine  *match.Engine
	books   *market.State
	number  int64 // of the last measurements
	view    *market.View
	now     market.Time
	request api.Request
	ask     match.Ask
}

func newDecider(clusters int, where string) (*decider, error) {
	s := market.New("")
	d := &decider{engine: match.New(), books: s, number: 1, now: market.At(time.Now())}
	for i := range clusters {
		if err := d.put(s, i); err != nil {
			return nil, err
		}
	}
	d.view = s.Publish(nil)
	d.request = api.Request{Where: where, Resources: resources("cpu", "4", "memory", "8Gi")}
	var err error
	d.ask, err = d.engine.Ask("cluster-00000", d.request)
	return d, err
}

// put adds a provider. One in ten has no room, one in ten has not been heard of for long.
func (d *decider) put(s *market.State, i int) error {
	id := fmt.Sprintf("cluster-%05d", i)
	card := &api.Card{Cluster: id, Key: "key", Properties: api.Properties{
		Region: []string{"eu", "eu", "us"}[i%3], Zones: []string{"a", "b"}, Architectures: []string{"amd64", "arm64"},
		Kubernetes: "v1.35.4", Labels: map[string]string{"tier": "gold"},
	}}
	if s.Member(id) == nil {
		s.Apply(market.Event{Time: d.now, Member: &market.Member{Cluster: id,
			State: api.MemberActive, Key: "key", Card: card}})
	}
	has := resources("cpu", fmt.Sprint(64+i%97), "memory", "256Gi",
		"pods", "500", "ephemeral-storage", "1Ti", "nvidia.com/gpu", "8")
	pool, heard := api.Pool{Capacity: has, Allocatable: has, Shared: has}, d.now
	switch i % 10 {
	case 3:
		pool.Allocated = resources("cpu", fmt.Sprint(61+i%97), "memory", "250Gi")
	case 7:
		heard -= market.Time(market.Lease.Milliseconds())
	}
	measured, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: 1, Number: d.number}, Terms: &api.Terms{}, Pools: map[string]api.Pool{api.GeneralPool: pool},
	})
	if err != nil {
		return err
	}
	return s.Observe(id, measured, heard, true)
}

// warm decides the same again and again: programs are compiled and what they came to is remembered.
func (d *decider) warm(lasts time.Duration) (float64, error) {
	again := func() int {
		begin, n := time.Now(), 0
		for ; time.Since(begin) < 20*time.Millisecond; n++ {
			d.engine.Decide(d.view, d.ask, d.now)
		}
		return n
	}
	again()
	return perCore(lasts, func() (func() int, error) { return again, nil })
}

// cold decides each time with an expression that was compiled and never evaluated. Compiling is not counted.
func (d *decider) cold(lasts time.Duration) (float64, error) {
	d.engine.Decide(d.view, d.ask, d.now)
	compiled := 0
	return perCore(lasts, func() (func() int, error) {
		asks := make([]match.Ask, 50)
		for i := range asks {
			compiled++
			r, err := d.request, error(nil)
			r.Where = strings.Replace(where, "16", fmt.Sprintf("16.%06d", compiled), 1)
			if asks[i], err = d.engine.Ask("cluster-00000", r); err != nil {
				return nil, err
			}
		}
		runtime.GC() // of what compiling left behind
		return func() int {
			for _, ask := range asks {
				d.engine.Decide(d.view, ask, d.now)
			}
			return len(asks)
		}, nil
	})
}

// resources are by name and amount: resources("cpu", "4", "memory", "8Gi").
func resources(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}
