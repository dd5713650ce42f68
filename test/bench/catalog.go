package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// searches are what people and agents look for in a catalog: a name, a kind of machine, a place,
// the cheapest of all.
var searches = []string{
	"text=cluster-00077&for=24h&sort=price",
	"text=whole+nodes&region=eu-7&for=8h&sort=price",
	"sellerGpu=a100&for=720h&sort=price",
	"region=eu-3&for=8h&sort=price&available=true",
	"currency=EUR&for=24h&sort=price",
	"type=gpu&text=tier%3Dgold",
}

// searchRate is how many searches a second there are.
const searchRate = 50

// catalog measures searches among 1,000 and among 10,000 sellers.
func catalog(ctx context.Context, b *bench) (all []Figure, err error) {
	for _, size := range []struct {
		clusters int
		goal     float64
	}{{1_000, 20}, {many, 300}} {
		figures, err := searchCatalog(ctx, b, b.count(size.clusters), size.goal)
		if err != nil {
			return nil, err
		}
		all = append(all, figures...)
	}
	return all, nil
}

// searchCatalog measures searches among sellers of 5 offers of 3 plans, by members over mTLS. Each
// answer has the signed offers, what is left of each plan and what it costs for the time that is
// asked for: the first page, of at most 100 offers. The searches take turns, and come at an even
// rate.
func searchCatalog(ctx context.Context, b *bench, clusters int, goal float64) ([]Figure, error) {
	const searchers = 10
	p, members, err := startFull(ctx, b.orders(fmt.Sprintf("catalog-%d", clusters)),
		&books{clusters: clusters, offers: 5, sellers: clusters}, searchers*10)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	var callers []caller
	size := 0
	for i, m := range members { // those that advertise are fresh
		c, err := m.advertises(ctx)
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		if i >= searchers {
			continue
		}
		n := i
		callers = append(callers, caller{c,
			func() []byte {
				n++
				return m.request(http.MethodGet, "/catalog?"+searches[n%len(searches)], "", nil)
			},
			func(status int, answer []byte) bool {
				size = max(size, len(answer))
				return status == http.StatusOK && bytes.Contains(answer, []byte(`"cost":"`))
			},
		})
	}
	l, err := pressAt(ctx, p, callers, b.lasts(2*time.Second), b.lasts(15*time.Second), searchRate)
	if err != nil {
		return nil, err
	}
	if !l.cleanly() {
		return nil, fmt.Errorf("%d of %d searches found nothing, such as: %.300s", l.failed, l.calls, l.said)
	}
	name := fmt.Sprintf("catalog search, %d clusters", clusters)
	return []Figure{
		atMost(goal, name+" x 5 offers x 3 plans, 50/s, p99", l.p99(), "ms"),
		plain(name+", median", quantile(l.latency, 0.5), "ms"),
		plain(name+", CPU time of the broker for each", l.serverMicros()/1000, "ms"),
		plain(name+", share of the cores that the server had", l.serverShare(), "cores"),
		plain(name+", largest answer", float64(size)/1024, "KiB"),
	}, nil
}
