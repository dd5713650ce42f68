package transporttest

import (
	"sync"
	"time"
)

// Clock is a clock that a test moves. Wall and passed time go together, so that nothing seems to jump.
type Clock struct {
	mu     sync.Mutex
	start  time.Time
	passed time.Duration
}

// NewClock starts at the present, so that certificates are valid.
func NewClock() *Clock { return &Clock{start: time.Now().Round(0)} }

// Wall is the time.
func (c *Clock) Wall() time.Time { return c.start.Add(c.Passed()) }

// Passed is how far the test moved it.
func (c *Clock) Passed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passed
}

// Move moves the clock, in steps that the exchange takes for ordinary time.
func (c *Clock) Move(by time.Duration, now func() time.Time) {
	const step = 25 * time.Second // longer than 30 s is a pause
	for ; by > 0; by -= step {
		c.mu.Lock()
		c.passed += min(by, step)
		target := c.start.Add(c.passed).Truncate(time.Millisecond)
		c.mu.Unlock()
		for now().Before(target) { // until the exchange has looked
			time.Sleep(100 * time.Microsecond)
		}
	}
}
