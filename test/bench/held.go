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

// held measures requests that are answered Held, decided with their explanation and durable before that: 64
// identities on connections of their own, 100 clusters. In proportion: how often the disk alone makes a
// page durable.
func held(ctx context.Context, b *bench) ([]Figure, error) {
	p, err := b.startBroker(ctx, "held")
	if err != nil {
		return nil, err
	}
	defer p.stop()
	members, err := joinAll(ctx, p, clusters)
	if err != nil {
		return nil, err
	}
	before, err := b.syncRate(b.lasts(2 * time.Second))
	if err != nil {
		return nil, err
	}
	var l *load
	disk, err := b.beside(func() (err error) {
		l, err = pressHolds(ctx, b, p, members[:consumers])
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
	if !l.cleanly() {
		say("%d of %d requests were not answered Held, such as: %s", l.failed, l.calls, l.said)
	}
	return []Figure{
		atLeast(5_000, "Held, durable", l.rate(), "/s").to("fdatasync of one writer", syncs),
		atMost(20, "Held, durable, p99", l.p99(), "ms").to("p99 of one fdatasync meanwhile", disk),
		atMost(0, "Held, refused without a reason", float64(l.failed), fmt.Sprintf("of %d", l.calls)),
		plain("Held, server alone", l.ratePerCore(), "/s and core"),
		plain("Held, share of the cores that the server had", l.serverShare(), "cores"),
		plain("fdatasync of one writer", syncs, "/s"),
		plain("Held, p99 of one fdatasync meanwhile", disk, "ms"),
	}, nil
}

func pressHolds(ctx context.Context, b *bench, p *process, members []*member) (*load, error) {
	body, err := json.Marshal(api.ReservationCreate{Request: api.Request{
		Resources: resources("cpu", "2", "memory", "4Gi"), Where: `region == "eu"`,
	}})
	if err != nil {
		return nil, err
	}
	var callers []caller
	for _, m := range members {
		c, err := m.dial(ctx, strings.TrimPrefix(p.url, "https://"))
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		n := 0
		callers = append(callers, caller{c,
			func() []byte {
				n++
				return m.request(http.MethodPost, "/reservations", fmt.Sprintf("Idempotency-Key: key-%d\r\n", n), body)
			},
			func(status int, answer []byte) bool {
				return status == http.StatusCreated && bytes.Contains(answer, []byte(`"state":"Held"`))
			},
		})
	}
	return press(ctx, p, callers, b.lasts(3*time.Second), b.lasts(20*time.Second))
}
