package borrowing

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// Calls that come while the work is done share the next one. Work that fails serves nobody else.
func TestCallsShareTheWork(t *testing.T) {
	var a asks
	begun, goOn := make(chan bool), make(chan bool)
	calls := 0
	work := func() error {
		if calls++; calls == 1 {
			begun <- true
			<-goOn
		}
		if calls == 2 {
			return errors.New("away")
		}
		return nil
	}
	var all sync.WaitGroup
	var failed sync.Map
	call := func(n int) {
		all.Go(func() {
			if err := a.do(work); err != nil {
				failed.Store(n, err)
			}
		})
	}
	call(0)
	<-begun
	for n := range 20 {
		call(n + 1)
	}
	for a.all.Load() != 21 {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	all.Wait()
	errs := 0
	failed.Range(func(any, any) bool { errs++; return true })
	if calls != 3 || errs != 1 {
		t.Errorf("the work was done %d times for 21 calls, want 3; %d calls failed, want 1", calls, errs)
	}
}
