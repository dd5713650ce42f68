package session

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// pace bounds how often something is done because of what a broker sends. The first time it is done at once. What
// is asked within the pause after that is done together, once, when the pause is over.
type pace struct {
	clock clock.Clock
	pause time.Duration
	do    func()       // it must not ask
	run   func(func()) // starts what waits
	end   <-chan struct{}

	mu    sync.Mutex
	last  time.Time // when it was last done
	waits bool      // something waits for the end of the pause
	asked bool      // it is to be done then
}

// ask does it now, or when the pause is over.
func (p *pace) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.pause - p.clock.Since(p.last)
	switch {
	case p.waits:
		p.asked = true
	case wait <= 0:
		p.last = p.clock.Now()
		p.do()
	default:
		p.waits, p.asked = true, true
		p.run(func() { p.doAfter(wait) })
	}
}

func (p *pace) doAfter(wait time.Duration) {
	select {
	case <-p.clock.After(wait):
	case <-p.end:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits = false; p.asked {
		p.last = p.clock.Now()
		p.do()
	}
}

// drop forgets what was asked and not done yet.
func (p *pace) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = false
}
