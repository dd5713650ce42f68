package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/bourse-dev/bourse/api"
)

// largeBody is the number of bytes above which a body is large.
const largeBody = 64 << 10

// callLimiter bounds the active calls of each caller.
type callLimiter struct {
	bounds Bounds

	mu      sync.Mutex
	callers map[string]*callerCalls
}

// callerCalls are the active calls of one caller.
type callerCalls struct {
	users        int
	calls, large *semaphore.Weighted
}

type activeCallKey struct{}

// activeCall is one active call.
type activeCall struct {
	limiter *callLimiter
	caller  string
	calls   *callerCalls

	mu          sync.Mutex
	large, over bool
	atEnd       []func()
}

// begin waits for the turn of a call. End the call afterwards. A call that is made within another one
// counts as one with it: begin returns nil. Errors: TooManyRequests.
func (l *callLimiter) begin(r *http.Request, caller string) (*activeCall, error) {
	ctx := r.Context()
	if ctx.Value(activeCallKey{}) != nil {
		return nil, nil
	}
	calls := l.callsOf(caller)
	if err := acquire(ctx, calls.calls, l.bounds.Patience); err != nil {
		l.leave(caller, calls)
		refused("calls")
		return nil, api.Errorf(api.CodeTooManyRequests, "%s has %d active calls", caller, l.bounds.Calls).
			Fix("wait for answers before calling again")
	}
	openCalls.Add(1)
	call := &activeCall{limiter: l, caller: caller, calls: calls}
	if r.ContentLength < 0 || r.ContentLength > largeBody {
		if err := call.countLarge(ctx); err != nil {
			call.end()
			return nil, err
		}
	}
	return call, nil
}

// callsOf returns the calls of a caller, which then has one more user. Leave them afterwards.
func (l *callLimiter) callsOf(caller string) *callerCalls {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.callers[caller]
	if calls == nil {
		if l.callers == nil {
			l.callers = map[string]*callerCalls{}
		}
		calls = &callerCalls{
			calls: semaphore.NewWeighted(int64(l.bounds.Calls)),
			large: semaphore.NewWeighted(int64(l.bounds.Large)),
		}
		l.callers[caller] = calls
	}
	calls.users++
	return calls
}

// acquire takes one unit of a semaphore and waits at most for the given time. It makes a timer only to
// wait, because few calls wait.
func acquire(ctx context.Context, of *semaphore.Weighted, atMost time.Duration) error {
	if of.TryAcquire(1) {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	return of.Acquire(wait, 1)
}

func (l *callLimiter) leave(caller string, calls *callerCalls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if calls.users--; calls.users == 0 {
		delete(l.callers, caller)
	}
}

// countLarge waits until the caller may have one more large call. Errors: TooManyRequests.
func (c *activeCall) countLarge(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large || c.over {
		return nil
	}
	if err := acquire(ctx, c.calls.large, c.limiter.bounds.Patience); err != nil {
		refused("large_bodies")
		return api.Errorf(api.CodeTooManyRequests,
			"%s has %d large active calls: their bodies have more than %d bytes or no "+
				"stated length, or they list everything", c.caller, c.limiter.bounds.Large, largeBody).
			Fix("wait for their answers before calling again")
	}
	c.large = true
	return nil
}

// end ends a call. It may be called again, and on nil.
func (c *activeCall) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	for _, f := range c.atEnd {
		f()
	}
	if c.large {
		c.calls.large.Release(1)
	}
	c.calls.calls.Release(1)
	c.limiter.leave(c.caller, c.calls)
	openCalls.Add(-1)
}

// afterAnswer calls f once the call of a context has ended: its answer is written by then.
func afterAnswer(ctx context.Context, f func()) {
	call, _ := ctx.Value(activeCallKey{}).(*activeCall)
	if call != nil {
		call.mu.Lock()
		defer call.mu.Unlock()
	}
	if call == nil || call.over {
		f()
		return
	}
	call.atEnd = append(call.atEnd, f)
}

// CountLarge counts the call of a context as a large one, because its answer takes much memory. It waits
// until the caller may have one more. Errors: TooManyRequests.
func CountLarge(ctx context.Context) error {
	if call, ok := ctx.Value(activeCallKey{}).(*activeCall); ok {
		return call.countLarge(ctx)
	}
	return nil
}

// EndCall stops counting the call of a context. Another bound limits what remains of it, such as a
// WebSocket.
func EndCall(ctx context.Context) {
	if call, ok := ctx.Value(activeCallKey{}).(*activeCall); ok {
		call.end()
	}
}

// Within makes calls in a context count as one with the call of from. It takes nothing else from that.
func Within(ctx, from context.Context) context.Context {
	if call, ok := from.Value(activeCallKey{}).(*activeCall); ok {
		return context.WithValue(ctx, activeCallKey{}, call)
	}
	return ctx
}
