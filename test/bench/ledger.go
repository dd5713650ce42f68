package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	agentledger "github.com/bourse-dev/bourse/internal/agent/ledger"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/lab"
)

const (
	// liveReservations are how many one agent has, borrowers by how many clusters.
	liveReservations = 10_000
	borrowers        = 8
)

// ledger measures an agent's Ledger at a real API server with 10,000 live reservations: how much of
// its space they take, how long it takes until one more is accepted for good, one after the other,
// how much a start takes, and what is written at rest.
func ledger(ctx context.Context, b *bench) ([]Figure, error) {
	c, stop, err := b.lightCluster(ctx, "lender")
	if err != nil {
		return nil, err
	}
	defer stop()
	l, err := newLender(c)
	if err != nil {
		return nil, err
	}
	live := b.count(liveReservations)
	end, err := l.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.fill(ctx, live); err != nil {
		return nil, err
	}
	use := l.market.Size().Use()
	accepts, err := l.accept(ctx, b.count(2000))
	if err != nil {
		return nil, err
	}
	// The last snapshot may still be on its way. A Ledger that never comes to rest is measured, too.
	for range 12 {
		if writes, err := writesWithin(c, 5*time.Second); err != nil || writes == 0 {
			break
		}
	}
	writes, err := writesWithin(c, b.lasts(20*time.Second))
	if err != nil {
		return nil, err
	}
	if err := end(); err != nil {
		return nil, err
	}
	begin := time.Now()
	if end, err = l.start(ctx); err != nil {
		return nil, err
	}
	opened := time.Since(begin)
	name := fmt.Sprintf("Ledger with %d live reservations, real API server: ", live)
	return []Figure{
		atMost(60, name+"of its space", 100*use, "%"),
		plain(name+"acceptance, median", quantile(accepts, 0.5), "ms"),
		atMost(100, name+"acceptance, p99", quantile(accepts, 0.99), "ms"),
		atMost(0, name+"writes at rest", float64(writes), ""),
		plain(name+"opened", float64(opened.Milliseconds()), "ms"),
	}, end()
}

// writesWithin is how often a Ledger is written in the time that follows.
func writesWithin(c *lab.Cluster, wait time.Duration) (n int, err error) {
	begin := time.Now()
	time.Sleep(wait)
	requests, err := c.Requests(begin)
	for _, r := range requests {
		if slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) && r.Resource == "ledgers.bourse.dev" {
			n++
		}
	}
	return n, err
}

// lender is a cluster whose gate accepts.
type lender struct {
	kube   kubeclient.Client
	keys   []*clusterkey.Key // of the borrowers, and the last of its own
	market *exchange.Exchange
	n      int
	ids    []string // of what it was asked for, oldest first
}

func newLender(c *lab.Cluster) (*lender, error) {
	config := c.Config()
	config.QPS = -1 // as agents have it
	k, err := kubeclient.New(config, kubeclient.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, err
	}
	l := &lender{kube: k}
	for range borrowers + 1 {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			return nil, err
		}
		l.keys = append(l.keys, key)
	}
	return l, nil
}

// start opens the Ledger as an agent does, until end is called.
func (l *lender) start(ctx context.Context) (end func() error, err error) {
	object := kube.New(l.kube, kubeclient.ObjectKey{Namespace: "bourse", Name: agentledger.ObjectName}, kube.Parts)
	options := agentledger.MarketOptions("lender")
	options.Log = slog.New(slog.DiscardHandler)
	if l.market, err = exchange.Open(ctx, object, options); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.market.Run(ctx) })
	if err = l.advertise(ctx); err == nil {
		group.Go(func() error {
			return wait.PollUntilContextCancel(ctx, market.Lease/3, false, func(ctx context.Context) (bool, error) {
				return false, l.advertise(ctx)
			})
		})
	}
	return func() error {
		cancel()
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, err
}

// advertise renews the lease of the lender, as an agent does.
func (l *lender) advertise(ctx context.Context) error {
	has := api.Resources{corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("100Ti")}
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: time.Now().UnixMilli(), Number: 1}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: has, Allocatable: has, Shared: has}},
	})
	if err != nil {
		return err
	}
	return l.market.Observe(ctx, "lender", m, true)
}

// next is what is asked of the gate next, signed by both.
func (l *lender) next() (market.Admit, error) {
	l.n++
	now, id := time.Now().Truncate(time.Second), "r-"+strings.ToLower(rand.Text()[:16]) // as a broker makes them
	consumer, key, own := fmt.Sprintf("borrower-%d", l.n%borrowers), l.keys[l.n%borrowers], l.keys[borrowers]
	a := api.Assignment{
		Protocol: api.Protocol, Reservation: id, Generation: 1, Consumer: consumer, ConsumerKey: key.Public().Fingerprint().String(),
		Provider: "lender", ProviderKey: own.Public().Fingerprint().String(), Pool: api.GeneralPool, Slice: market.SliceName(consumer, "lender", api.GeneralPool),
		Resources: api.Resources{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(10+l.n%90), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(64+l.n%1000)<<20, resource.BinarySI)},
		Issued: metav1.NewTime(now), Until: market.At(now.Add(time.Duration(8+l.n%500) * time.Hour)).Meta(), Expires: market.At(now.Add(time.Minute)).Meta(),
	}
	size, err := amounts.ParseRequest("resources", a.Resources)
	if err != nil {
		return market.Admit{}, err
	}
	document, err := key.Sign(api.DocumentAssignment, a)
	if err != nil {
		return market.Admit{}, err
	}
	binds := market.At(a.Expires.Add(market.SkewGrace))
	l.ids = append(l.ids, id)
	acceptance, err := own.Sign(api.DocumentAcceptance, api.Acceptance{
		Protocol: api.Protocol, Reservation: id, Generation: 1, Consumer: consumer, Provider: "lender",
		Assignment: clusterkey.Digest(document).String(), Expires: binds.Meta(),
	})
	return market.Admit{Assignment: a, Size: size, Document: document,
		Acceptance: acceptance, BindsUntil: binds, Fence: api.Fence{Lineage: "bench", Revision: uint64(l.n)}}, err
}

// fill binds so many reservations, some at a time.
func (l *lender) fill(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(64)
	var mu sync.Mutex
	for range n {
		group.Go(func() error {
			mu.Lock()
			admit, err := l.next()
			mu.Unlock()
			if err == nil {
				_, err = l.market.Do(ctx, admit)
			}
			if err == nil {
				_, err = l.market.Do(ctx, market.Commit{ID: admit.Assignment.Reservation, Generation: 1})
			}
			return err
		})
	}
	return group.Wait()
}

// accept accepts one after the other, and ends another for each, so that there are as many as before.
func (l *lender) accept(ctx context.Context, n int) (took []time.Duration, err error) {
	for i := range n {
		admit, err := l.next()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := l.market.Do(ctx, admit); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		old := l.ids[i]
		for _, c := range []market.Command{
			market.Commit{ID: admit.Assignment.Reservation, Generation: 1},
			market.Release{ID: old, By: "lender", Reason: api.ReasonReleased}, market.Free{ID: old, Provider: "lender"},
		} {
			if _, err := l.market.Do(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}
