package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/bourse-dev/bourse/api"
)

// What peers of all listeners of this process hold open.
var openConnections, openCalls, openWatches atomic.Int64

var turnedAway = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "bourse_server_refused_total", Help: "What was refused, or ended, because a peer holds too much open, calls too often or is too slow.",
}, []string{"reason"})

// reasons are the labels of turnedAway. The table of bounds in docs/broker.md has each.
var reasons = []string{
	"body_memory", "calls", "connections", "connections_of_caller", "handshake_messages", "handshakes", "idle_connections", "large_bodies",
	"long_introductions", "rate", "rate_of_refused", "rate_of_renewals", "slow_bodies", "slow_introductions", "slow_readers", "slow_strangers",
	"strangers", "subscriptions", "watches",
}

// Metrics are what the listeners of this process count.
func Metrics() []prometheus.Collector {
	for _, reason := range reasons {
		turnedAway.WithLabelValues(reason) // it is 0 until something is counted
	}
	all := []prometheus.Collector{turnedAway}
	for what, n := range map[string]*atomic.Int64{"connections": &openConnections, "calls": &openCalls, "watches": &openWatches} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "bourse_server_open", Help: "What peers hold open: connections, calls, watches.", ConstLabels: prometheus.Labels{"what": what},
		}, func() float64 { return float64(n.Load()) }))
	}
	return all
}

func refused(reason string) { turnedAway.WithLabelValues(reason).Inc() }

// CountRefused counts what an interface beside the API refused, or ended, for a bound: the reason is a label of bourse_server_refused_total.
func CountRefused(reason string) { refused(reason) }

// largeBody is from how many bytes on a body is large.
const largeBody = 64 << 10

// held bounds what each caller has in hand.
type held struct {
	bounds Bounds

	mu      sync.Mutex
	callers map[string]*hands
	watches map[string][]*watching // by cluster, oldest first
}

// idleHands is of how many callers the hands are kept when nothing is in them.
const idleHands = 1024

// hands are those of one caller.
type hands struct {
	users        int
	calls, large *semaphore.Weighted
}

type inHandKey struct{}

// inHand is a call that is under way.
type inHand struct {
	held   *held
	caller string
	of     *hands

	mu          sync.Mutex
	large, over bool
}

// take has a call of a caller begin, when its turn has come. Let it go afterwards. A call that is made within another counts as one with it: nil.
// Errors: TooManyRequests.
func (h *held) take(r *http.Request, caller string) (*inHand, error) {
	ctx := r.Context()
	if ctx.Value(inHandKey{}) != nil {
		return nil, nil
	}
	h.mu.Lock()
	mine := h.callers[caller]
	if mine == nil {
		if h.callers == nil {
			h.callers = map[string]*hands{}
		}
		mine = &hands{calls: semaphore.NewWeighted(int64(h.bounds.Calls)), large: semaphore.NewWeighted(int64(h.bounds.Large))}
		h.callers[caller] = mine
	}
	mine.users++
	h.mu.Unlock()
	if err := takeTurn(ctx, mine.calls, h.bounds.Patience); err != nil {
		h.leave(caller, mine)
		refused("calls")
		return nil, api.Errorf(api.CodeTooManyRequests, "%s has %d calls in hand", caller, h.bounds.Calls).Fix("wait for answers before calling again")
	}
	openCalls.Add(1)
	call := &inHand{held: h, caller: caller, of: mine}
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		if err := call.takeLarge(ctx); err != nil {
			call.let()
			return nil, err
		}
	}
	return call, nil
}

// takeTurn takes one of what there is, or waits for it with patience. A timer is only made where one has to wait: nearly no call has to.
func takeTurn(ctx context.Context, of *semaphore.Weighted, patience time.Duration) error {
	if of.TryAcquire(1) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return of.Acquire(wait, 1)
}

func (h *held) leave(caller string, mine *hands) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if mine.users--; mine.users == 0 && len(h.callers) > idleHands {
		delete(h.callers, caller)
	}
}

// takeLarge counts a call as a large one, when its turn has come. Errors: TooManyRequests.
func (c *inHand) takeLarge(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large || c.over {
		return nil
	}
	if err := takeTurn(ctx, c.of.large, c.held.bounds.Patience); err != nil {
		refused("large_bodies")
		return api.Errorf(api.CodeTooManyRequests, "%s has %d large calls in hand: their bodies have more than %d bytes, or do not say how many, or their answers are a whole list",
			c.caller, c.held.bounds.Large, largeBody).Fix("wait for their answers before calling again")
	}
	c.large = true
	return nil
}

// let ends a call. To end it again is harmless, and so is to end none.
func (c *inHand) let() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if c.large {
		c.of.large.Release(1)
	}
	c.of.calls.Release(1)
	c.held.leave(c.caller, c.of)
	openCalls.Add(-1)
}

// TakeLarge counts the call of a context as one of its caller's large ones, when its turn has come: its answer takes much memory.
// Errors: TooManyRequests.
func TakeLarge(ctx context.Context) error {
	if call, ok := ctx.Value(inHandKey{}).(*inHand); ok {
		return call.takeLarge(ctx)
	}
	return nil
}

// LetGo ends the call of a context for all counts: what remains of it, such as a WebSocket, is bounded in another way.
func LetGo(ctx context.Context) {
	if call, ok := ctx.Value(inHandKey{}).(*inHand); ok {
		call.let()
	}
}

// Within makes calls in a context count as one with the call of from. Nothing else of from is handed on.
func Within(ctx, from context.Context) context.Context {
	if call, ok := from.Value(inHandKey{}).(*inHand); ok {
		return context.WithValue(ctx, inHandKey{}, call)
	}
	return ctx
}

// watching is a watch that is open.
type watching struct{ end func() }

// watch has a cluster watch. Of more watches than it may have the oldest ends: where a cluster has lost connections without a word, the newest is
// the one that it reads. Let it go afterwards.
func (h *held) watch(cluster string, end func()) (let func()) {
	w := &watching{end}
	h.mu.Lock()
	if h.watches == nil {
		h.watches = map[string][]*watching{}
	}
	all := append(h.watches[cluster], w)
	var old *watching
	if len(all) > h.bounds.Watches {
		old, all = all[0], all[1:]
	}
	h.watches[cluster] = all
	h.mu.Unlock()
	if old != nil {
		refused("watches")
		old.end()
	}
	openWatches.Add(1)
	return func() {
		openWatches.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		var rest []*watching
		for _, other := range h.watches[cluster] {
			if other != w {
				rest = append(rest, other)
			}
		}
		if h.watches[cluster] = rest; len(rest) == 0 {
			delete(h.watches, cluster)
		}
	}
}

// lastWord is how long a watch that ends has to say so.
const lastWord = time.Second
