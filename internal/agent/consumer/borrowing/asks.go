package borrowing

import (
	"sync"
	"sync/atomic"
)

// asks counts the calls that ask for the same work, which serves all that came before it began.
type asks struct {
	all atomic.Int64

	mu     sync.Mutex
	served int64
}

// do does the work, unless another call does all of it after this one came.
func (a *asks) do(work func() error) error {
	own := a.all.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if own <= a.served {
		return nil
	}
	serves := a.all.Load()
	if err := work(); err != nil {
		return err
	}
	a.served = serves
	return nil
}
