package agent

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/bourse-dev/bourse/api"
)

// valve is between this cluster and one broker: closed, the broker is as if it were away, because people said so. A nil one is open.
type valve struct {
	next http.RoundTripper
	name string

	mu   sync.Mutex
	open context.Context // of the calls that are under way; nil: closed
	stop context.CancelFunc
}

func newValve(name string, next http.RoundTripper) *valve {
	v := &valve{next: next, name: name}
	v.set(true)
	return v
}

// set opens or closes it, and says whether that is news. To close it ends what is under way.
func (v *valve) set(open bool) (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case open && v.open == nil:
		v.open, v.stop = context.WithCancel(context.Background())
	case !open && v.open != nil:
		v.stop()
		v.open = nil
	default:
		return false
	}
	return true
}

func (v *valve) closed() bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open == nil
}

// RoundTrip implements http.RoundTripper.
func (v *valve) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	if open == nil {
		return nil, api.Errorf(api.CodeUnavailable, "broker %s is disabled here", v.name).Fix("bourse brokers enable %s", v.name)
	}
	ctx, cancel := context.WithCancel(r.Context())
	forget := context.AfterFunc(open, cancel)
	done := sync.OnceFunc(func() { forget(); cancel() })
	answer, err := v.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		return nil, err
	}
	answer.Body = body{answer.Body, done}
	return answer, nil
}

// body tells when it is closed.
type body struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// CloseIdleConnections is for http.Client, which looks for it.
func (v *valve) CloseIdleConnections() {
	if c, ok := v.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
