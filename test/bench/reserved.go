package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
)

// requestRate is how many requests a second arrive, whether or not earlier ones are answered.
const requestRate = 200

// reserved measures the way of a request to Reserved: decided and held by the broker, signed by the consumer,
// accepted and signed by the provider's gate, recorded by the broker, and known to the consumer, which has
// verified the provider's signature. The agents' halves, clients and watch streams are the real ones; their
// ledgers are in memory and there is no Kubernetes around them.
func reserved(ctx context.Context, b *bench) ([]Figure, error) {
	p, members, err := startAlike(ctx, b.orders("reserved"), clusters)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	arrivals := newArrivals()
	var agents []*agent
	for _, m := range members {
		a, err := startAgent(ctx, m, memorytest.New(), 0, &running, arrivals.arrived)
		if err != nil {
			return nil, err
		}
		agents = append(agents, a)
	}
	if err := arrivals.send(ctx, agents, b.lasts(3*time.Second)); err != nil {
		return nil, err
	}
	begin, err := p.cpu()
	if err != nil {
		return nil, err
	}
	disk, err := b.beside(func() error { return arrivals.send(ctx, agents, b.lasts(20*time.Second)) })
	if err != nil {
		return nil, err
	}
	end, err := p.cpu()
	if err != nil {
		return nil, err
	}
	took := arrivals.took
	return []Figure{
		atMost(50, "request to Reserved, 200/s, p99", quantile(took, 0.99), "ms").to("p99 of one fdatasync meanwhile", disk),
		plain("request to Reserved, 200/s, median", quantile(took, 0.5), "ms"),
		plain("request to Reserved, p99 of one fdatasync meanwhile", disk, "ms"),
		plain("request to Reserved, server alone", float64(len(took))/(end-begin).Seconds(), "/s and core"),
	}, nil
}

// arrivals are requests on their way to Reserved.
type arrivals struct {
	mu      sync.Mutex
	number  int
	sent    map[string]time.Time // by UID: when it should have been sent
	took    []time.Duration
	changed chan struct{}
}

func newArrivals() *arrivals {
	return &arrivals{sent: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

// send sends requests for some time at their rate, by one agent after the other, and waits until all are
// Reserved. What it took counts from when a request should have been sent: a late one is not excused.
func (a *arrivals) send(ctx context.Context, agents []*agent, lasts time.Duration) error {
	a.took = nil
	failed := make(chan error, 1)
	begin := time.Now()
	for i := range int(lasts.Seconds() * requestRate) {
		due := begin.Add(time.Duration(i) * time.Second / requestRate)
		select {
		case <-time.After(time.Until(due)):
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		wish := a.wish(due)
		go func() {
			if err := agents[i%len(agents)].ask(ctx, wish); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		}()
	}
	return a.wait(ctx, failed)
}

func (a *arrivals) wish(due time.Time) requests.Wish {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number++
	name := fmt.Sprintf("request-%06d", a.number)
	a.sent[name] = due
	return requests.Wish{
		Object:  market.Object{Namespace: "default", Name: name, UID: name},
		Request: api.Request{Resources: resources("cpu", "2", "memory", "4Gi"), Where: `region == "eu"`},
	}
}

// arrived is told by an agent that one of its requests is Reserved.
func (a *arrivals) arrived(uid string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, waits := a.sent[uid]
	if !waits {
		return
	}
	delete(a.sent, uid)
	a.took = append(a.took, time.Since(due))
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *arrivals) wait(ctx context.Context, failed <-chan error) error {
	patience := time.After(30 * time.Second)
	for {
		a.mu.Lock()
		left := len(a.sent)
		a.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-a.changed:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-patience:
			return fmt.Errorf("%d requests did not become Reserved in 30s", left)
		}
	}
}
