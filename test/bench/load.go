package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connection is one kept-alive connection of a member. It is as lean as HTTP can be, because the load
// shares its cores with the broker: a request is bytes that were made before.
type connection struct {
	conn *tls.Conn
	in   *bufio.Reader
}

func (m *member) dial(ctx context.Context, address string) (*connection, error) {
	config := m.tls.Config()
	config.NextProtos = []string{"http/1.1"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn.(*tls.Conn), in: bufio.NewReader(conn)}, nil
}

// do makes one call and reads its answer.
func (c *connection) do(request []byte) (status int, body []byte, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// load is what came of a load.
type load struct {
	calls   int
	failed  int // answers that were not what was asked for
	said    string
	took    time.Duration
	server  time.Duration // CPU time of the serving process
	latency []time.Duration
}

func (l *load) rate() float64         { return float64(l.calls) / l.took.Seconds() }
func (l *load) ratePerCore() float64  { return float64(l.calls) / l.server.Seconds() }
func (l *load) p99() float64          { return quantile(l.latency, 0.99) }
func (l *load) serverMicros() float64 { return float64(l.server.Microseconds()) / float64(l.calls) }
func (l *load) serverShare() float64  { return l.server.Seconds() / l.took.Seconds() }
func (l *load) cleanly() (ok bool)    { return l.failed == 0 }

// quantile of latencies, in milliseconds.
func quantile(latencies []time.Duration, q float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	slices.Sort(latencies)
	return float64(latencies[int(q*float64(len(latencies)-1))].Microseconds()) / 1000
}

// caller makes the next request of a connection, and says whether an answer is what was asked for.
type caller struct {
	*connection
	next func() []byte
	good func(status int, body []byte) bool
}

// press lets every caller call again as soon as it has its answer: first for warm, uncounted, then for lasts.
func press(ctx context.Context, p *process, callers []caller, warm, lasts time.Duration) (*load, error) {
	return pressAt(ctx, p, callers, warm, lasts, 0)
}

// pressAt lets the callers make so many calls a second in all, evenly. A latency begins when a call
// was due, so that what is late because of the call before it counts.
func pressAt(ctx context.Context, p *process, callers []caller,
	warm, lasts time.Duration, rate float64) (*load, error) {
	if _, err := round(ctx, callers, warm, rate); err != nil {
		return nil, err
	}
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	l, err := round(ctx, callers, lasts, rate)
	if err != nil {
		return nil, err
	}
	after, err := p.cpu()
	l.server = after - before
	return l, err
}

func round(ctx context.Context, callers []caller, lasts time.Duration, rate float64) (*load, error) {
	sum, begin := &load{}, time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	var failure error
	var every time.Duration
	if rate > 0 {
		every = time.Duration(float64(len(callers)) / rate * float64(time.Second))
	}
	for i, c := range callers {
		first := begin.Add(every * time.Duration(i) / time.Duration(len(callers)))
		all.Go(func() {
			l, err := c.press(ctx, first, begin.Add(lasts), every)
			mu.Lock()
			defer mu.Unlock()
			sum.calls, sum.failed = sum.calls+l.calls, sum.failed+l.failed
			sum.latency = append(sum.latency, l.latency...)
			if l.said != "" {
				sum.said = l.said
			}
			if err != nil {
				failure = err
			}
		})
	}
	all.Wait()
	sum.took = time.Since(begin)
	return sum, failure
}

// press calls from its first turn until the end; each turn is every later than the one before, or,
// where every is 0, now.
func (c caller) press(ctx context.Context, due, end time.Time, every time.Duration) (l load, err error) {
	for ; ctx.Err() == nil && due.Before(end) && time.Now().Before(end); due = due.Add(every) {
		request := c.next()
		if every == 0 {
			due = time.Now()
		} else {
			time.Sleep(time.Until(due))
		}
		status, body, err := c.do(request)
		if err != nil {
			return l, err
		}
		l.calls++
		l.latency = append(l.latency, time.Since(due))
		if !c.good(status, body) {
			l.failed++
			l.said = string(body)
		}
	}
	return l, ctx.Err()
}
