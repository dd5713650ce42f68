package transport

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// answersWithin is how long a call waits for a party that does not answer, where others wait for the caller.
const answersWithin = 5 * time.Second

// Answers notes whether a party answers. While a call to it is late, others fail at once instead of waiting, too: what
// they hold up is for other parties. The zero value is ready for use.
type Answers struct {
	mu   sync.Mutex
	late int // calls that it has not answered in time, and not since
}

// Await makes a call to the party, and waits for a while for its answer. A call that is late goes on. Its result is
// lost, so repeat it later. Errors: that of the call; Unavailable without an answer.
func (a *Answers) Await(ctx context.Context, call func(context.Context) error) error {
	if a == nil {
		return call(ctx)
	}
	silent := api.Errorf(api.CodeUnavailable, "it has not answered for %s", answersWithin).
		Fix("see: bourse brokers; the agent calls again by itself")
	a.mu.Lock()
	late := a.late > 0
	a.mu.Unlock()
	if late {
		return silent
	}
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		err = call(context.WithoutCancel(ctx)) // a call that ends with ctx would seem to be answered
	}()
	timer := time.NewTimer(answersWithin)
	defer timer.Stop()
	select {
	case <-answered:
		return err
	case <-ctx.Done():
	case <-timer.C:
	}
	a.count(1)
	go func() {
		<-answered
		a.count(-1)
	}()
	return cmp.Or(ctx.Err(), error(silent))
}

func (a *Answers) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late += n
}
