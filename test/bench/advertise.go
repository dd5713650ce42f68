package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

const clusters = 100

// advertise measures advertisement deltas: 100 agents, each on a connection of its own, say what their pods
// take now. In proportion: what a Go server over the same TLS does that answers without looking.
func advertise(ctx context.Context, b *bench) ([]Figure, error) {
	p, members, err := startAlike(ctx, b.orders("advertise"), clusters)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	l, err := pressDeltas(ctx, b, p, members)
	if err != nil {
		return nil, err
	}
	if !l.cleanly() {
		return nil, fmt.Errorf("%d of %d deltas were refused, such as: %s", l.failed, l.calls, l.said)
	}
	p.stop()
	bare, err := start(ctx, orders{Dir: p.dir, Bare: true})
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	least, err := pressDeltas(ctx, b, bare, members)
	if err != nil {
		return nil, err
	}
	return []Figure{
		atLeast(20_000, "advertisement delta", l.ratePerCore(), "/s and core").to("net/http over TLS that answers nothing",
			least.ratePerCore()),
		plain("advertisement delta, all in all", l.rate(), "/s"),
		plain("advertisement delta, p99 under that load", l.p99(), "ms"),
		plain("net/http over TLS that answers nothing", least.ratePerCore(), "/s and core"),
	}, nil
}

func pressDeltas(ctx context.Context, b *bench, p *process, members []*member) (*load, error) {
	var callers []caller
	for _, m := range members {
		c, err := m.dial(ctx, strings.TrimPrefix(p.url, "https://"))
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		next, err := m.deltas()
		if err != nil {
			return nil, err
		}
		callers = append(callers, caller{c, next, func(status int, _ []byte) bool { return status == http.StatusNoContent }})
	}
	return press(ctx, p, callers, b.lasts(2*time.Second), b.lasts(10*time.Second))
}

// deltas makes the member's next advertisement each time: another amount that its pods take.
func (m *member) deltas() (func() []byte, error) {
	number := m.measured.Sequence.Number
	example, err := m.delta(number)
	if err != nil {
		return nil, err
	}
	if _, body, _ := strings.Cut(string(example), "\r\n\r\n"); len(body) > 300 {
		return nil, fmt.Errorf("a delta of %d bytes, at most 300 were promised", len(body))
	}
	return func() []byte {
		request, _ := m.delta(number) // that it encodes was just seen
		number++
		return request
	}, nil
}

func (m *member) delta(number int64) ([]byte, error) {
	used := resources("cpu", fmt.Sprintf("%dm", 1000+number%5000), "memory", fmt.Sprintf("%dMi", 1000+number%5000),
		"pods", fmt.Sprint(number%100), "ephemeral-storage", "20Gi")
	body, err := json.Marshal(api.MeasurementDelta{
		Base: api.Sequence{Incarnation: 1, Number: number}, Sequence: api.Sequence{Incarnation: 1, Number: number + 1},
		Pools: map[string]*api.PoolDelta{api.GeneralPool: {Allocated: used}},
	})
	if err != nil {
		return nil, err
	}
	return m.request(http.MethodPatch, "/clusters/"+m.cluster+"/advertisement", "", body), nil
}

// request is a whole HTTP request.
func (m *member) request(method, path, headers string, body []byte) []byte {
	return fmt.Appendf(nil,
		"%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		method, api.Prefix, path, m.address, headers, len(body), body)
}
