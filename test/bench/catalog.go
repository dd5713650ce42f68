package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// searches are what people and agents look for in a catalog: a name, a kind of machine, a place, the cheapest of all.
var searches = []string{
	"text=cluster-00777&for=24h&sort=price",
	"text=whole+nodes&region=eu-7&for=8h&sort=price",
	"gpu=a100&for=720h&sort=price",
	"region=eu-3&for=8h&sort=price&available=true",
	"currency=EUR&for=24h&sort=price",
	"type=gpu&text=tier%3Dgold",
}

// searchRate is how many searches a second there are.
const searchRate = 50

// catalog measures searches among 10,000 sellers of 5 offers of 3 plans, by members over mTLS, each answer with the signed offers, what
// is left of each plan and what it costs for the time that is asked for: the first page, of at most 100 offers. The searches take turns,
// and come at an even rate.
func catalog(ctx context.Context, b *bench) ([]Figure, error) {
	const searchers = 10
	p, members, err := b.startFull(ctx, "catalog", &books{clusters: b.count(many), offers: 5, sellers: b.count(many)}, searchers*10)
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
	return []Figure{
		atMost(20, "catalog search, 10,000 clusters x 5 offers x 3 plans, 50/s, p99", l.p99(), "ms"),
		plain("catalog search, median", quantile(l.latency, 0.5), "ms"),
		plain("catalog search, CPU time of the broker for each", l.serverMicros()/1000, "ms"),
		plain("catalog search, share of the cores that the server had", l.serverShare(), "cores"),
		plain("catalog search, largest answer", float64(size)/1024, "KiB"),
	}, nil
}
