package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
)

// hostile measures how a member that behaves is served, and /livez, while twenty members send the
// largest of everything as fast as the default rate limit lets them: requests that nobody can
// serve, and others that are held until their time is over.
func hostile(ctx context.Context, b *bench) ([]Figure, error) {
	o := orders{Dir: filepath.Join(b.dir, "hostile"), Limited: true}
	var err error
	if o.Probes, err = freeAddress(); err != nil {
		return nil, err
	}
	const foes, connections = 20, 3
	p, members, err := startAlike(ctx, o, foes+2)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	honest, address := members[foes], strings.TrimPrefix(p.url, "https://")
	flood, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for i := range foes * connections {
		c, err := members[i%foes].dial(ctx, address)
		if err != nil {
			return nil, err
		}
		defer c.conn.Close()
		group.Go(func() error {
			for n := 0; flood.Err() == nil; n++ {
				key := fmt.Sprintf("Idempotency-Key: %d-%d\r\n", i, n)
				status, _, err := c.do(members[i%foes].request(http.MethodPost, "/reservations", key, largest(n%2 == 0)))
				if err != nil {
					return err
				}
				if status == http.StatusTooManyRequests {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return nil
		})
	}
	var live []time.Duration
	group.Go(func() error {
		for flood.Err() == nil {
			begin := time.Now()
			answer, err := http.Get("http://" + o.Probes + "/livez")
			if err != nil {
				return err
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("/livez says %s", answer.Status)
			}
			live = append(live, time.Since(begin))
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	})
	c, err := honest.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	body, err := json.Marshal(api.ReservationCreate{Request: api.Request{Resources: resources("cpu",
		"2", "memory", "4Gi")}})
	if err != nil {
		return nil, err
	}
	n := 0
	l, err := pressAt(ctx, p, []caller{{c, func() []byte {
		n++
		return honest.request(http.MethodPost, "/reservations", fmt.Sprintf("Idempotency-Key: honest-%d\r\n", n), body)
	}, func(status int, answer []byte) bool {
		return status == http.StatusCreated && bytes.Contains(answer, []byte(`"state":"Held"`))
	}}}, b.lasts(3*time.Second), b.lasts(60*time.Second), 20)
	stop()
	if failed := group.Wait(); err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return []Figure{
		atMost(200, "beside 20 hostile members: Held, p99", l.p99(), "ms"),
		atMost(0, "beside 20 hostile members: not answered Held", float64(l.failed), fmt.Sprintf("of %d", l.calls)),
		atMost(1000, "beside 20 hostile members: /livez, slowest", quantile(live, 1), "ms"),
	}, nil
}

// largest is about the largest request that there may be; hopeless: nobody can serve it.
func largest(hopeless bool) []byte {
	r := api.Request{Resources: resources("cpu", "1")}
	if hopeless {
		r.Where = "region == '" + strings.Repeat("x", 1900) + "'"
	}
	for i := range 60 {
		r.Exclude = append(r.Exclude, fmt.Sprintf("%s-%d", strings.Repeat("e", 58), i))
	}
	r.Properties = map[string]string{}
	if hopeless {
		for i := range 30 {
			r.Properties[fmt.Sprintf("%s%d", strings.Repeat("p", 300), i)] = strings.Repeat("v", 300)
		}
	}
	data, err := json.Marshal(api.ReservationCreate{Request: r})
	if err != nil {
		panic(err)
	}
	return data
}
