package federation

import (
	"sync/atomic"
	"time"
)

// clock is the machine's, and what was let pass besides. The broker and all agents of a federation have one.
type clock struct {
	start time.Time
	more  atomic.Int64
}

func newClock() *clock { return &clock{start: time.Now()} }

// Wall implements exchange.Clock.
func (c *clock) Wall() time.Time { return time.Now().Round(0).Add(time.Duration(c.more.Load())) }

// Passed implements exchange.Clock.
func (c *clock) Passed() time.Duration { return time.Since(c.start) + time.Duration(c.more.Load()) }

// Pass lets time pass for the broker and all agents, in one piece, as if all of them had stood
// still: what is bound gets older, what has a time comes to it, and silence says nothing about
// anyone. Certificates stay as old as they are.
func (f *Federation) Pass(d time.Duration) { f.clock.more.Add(int64(d)) }
