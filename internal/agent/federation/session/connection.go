package session

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Connection is what is known of the connection to a broker or connector.
type Connection struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	err    error
	last   time.Time // of the last call that succeeded
	turned time.Time // when it was last lost, or restored
}

// Record notes how the last call ended, and reports whether that restored the connection.
func (c *Connection) Record(err error) (restored bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	restored = err == nil && c.err != nil
	if (err == nil) != (c.err == nil) || c.turned.IsZero() {
		c.turned = now
	}
	if c.err = err; err == nil {
		c.last = now
	}
	return restored
}

// IsLost reports whether the last call failed, and none has succeeded for so long.
func (c *Connection) IsLost(long time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && c.clock.Since(c.last) >= long
}

// State is a Connection at one moment.
type State struct {
	// Connected says that the last call succeeded. It is false before the first call.
	Connected bool
	// Err is why the last call failed.
	Err error
	// Last is when a call last succeeded, Turned when the connection was last lost or restored. Zero: never.
	Last, Turned time.Time
}

// State returns what is known now.
func (c *Connection) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return State{Connected: c.err == nil && !c.last.IsZero(), Err: c.err, Last: c.last, Turned: c.turned}
}
