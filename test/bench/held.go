package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// heldGoal is how many holds a second were promised.
const heldGoal = 5_000

// held measures requests that are answered Held, decided with their explanation and durable before
// that: 64 identities on connections of their own, 100 clusters. First as many as the broker can
// while the load shares its cores, then as many as were promised, for how long an answer takes: a
// saturated queue says nothing of that. In proportion: how often the disk alone makes a page
// durable.
func held(ctx context.Context, b *bench) ([]Figure, error) {
	p, members, err := startAlike(ctx, b.orders("held"), clusters)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	before, err := b.syncRate(b.lasts(2 * time.Second))
	if err != nil {
		return nil, err
	}
	most, err := pressHolds(ctx, b, p, members[:consumers], 0)
	if err != nil {
		return nil, err
	}
	var l *load
	disk, err := b.beside(func() (err error) {
		l, err = pressHolds(ctx, b, p, members[:consumers], heldGoal)
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := b.syncRate(b.lasts(2 * time.Second))
	if err != nil {
		return nil, err
	}
	syncs := (before + after) / 2
	if failed := most.failed + l.failed; failed > 0 {
		say("%d of %d requests were not answered Held, such as: %s", failed, most.calls+l.calls, most.said+l.said)
	}
	return []Figure{
		atLeast(heldGoal, "Held, durable, at most", most.rate(), "/s").to("fdatasync of one writer", syncs),
		plain("Held, durable, at most: p99", most.p99(), "ms"),
		atLeast(0.99*heldGoal, "Held, durable, at the goal's rate", l.rate(), "/s"),
		atMost(20, "Held, durable, at the goal's rate: p99", l.p99(), "ms").to("p99 of one fdatasync meanwhile", disk),
		atMost(0, "Held, refused without a reason", float64(most.failed+l.failed), fmt.Sprintf("of %d", most.calls+l.calls)),
		plain("Held, server alone", most.ratePerCore(), "/s and core"),
		plain("Held, share of the cores that the server had", most.serverShare(), "cores"),
		plain("fdatasync of one writer", syncs, "/s"),
		plain("Held, p99 of one fdatasync meanwhile", disk, "ms"),
	}, nil
}

func pressHolds(ctx context.Context, b *bench, p *process, members []*member, rate float64) (*load, error) {
	body, err := json.Marshal(api.ReservationCreate{Request: api.Request{
		Resources: resources("cpu", "2", "memory", "4Gi"), Where: `region == "eu"`,
	}})
	if err != nil {
		return nil, err
	}
	return pressRequests(ctx, b, p, members, rate, func(int, int) []byte { return body })
}

// pressRequests lets members ask, each for what it is given for its n-th request, and be answered Held.
func pressRequests(ctx context.Context, b *bench, p *process,
	members []*member, rate float64, request func(member, n int) []byte) (*load, error) {
	var callers []caller
	for i, m := range members {
		c, err := m.dial(ctx, strings.TrimPrefix(p.url, "https://"))
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		n := 0
		callers = append(callers, caller{c,
			func() []byte {
				n++
				return m.request(http.MethodPost, "/reservations",
					fmt.Sprintf("Idempotency-Key: at-%g-%d\r\n", rate, n), request(i, n))
			},
			func(status int, answer []byte) bool {
				return status == http.StatusCreated && bytes.Contains(answer, []byte(`"state":"Held"`))
			},
		})
	}
	return pressAt(ctx, p, callers, b.lasts(3*time.Second), b.lasts(15*time.Second), rate)
}
