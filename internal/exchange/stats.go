package exchange

import (
	"sync/atomic"
	"time"
)

// stats are written by the owner and read by any goroutine.
type stats struct {
	now, batches, events, jumps, failures, refused atomic.Int64
	appending                                      atomic.Int64 // nanoseconds in Append
	start                                          time.Time
	step                                           atomic.Int64 // nanoseconds from start to the owner's present step
}

// begin records that the owner begins a step.
func (s *stats) begin() { s.step.Store(int64(time.Since(s.start))) }

// Busy returns how long the owner's present step has taken: a batch, its commit, or a load of the journal.
// It is the machine's time, not that of Options.Clock.
func (x *Exchange) Busy() time.Duration {
	return time.Since(x.stats.start) - time.Duration(x.stats.step.Load())
}

// Ended reports whether Run has returned.
func (x *Exchange) Ended() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

func (s *stats) appended(events int, took time.Duration, err error) {
	s.batches.Add(1)
	s.events.Add(int64(events))
	s.appending.Add(int64(took))
	if err != nil {
		s.failures.Add(1)
	}
}

// Stats counts what happened since the start.
type Stats struct {
	// Batches is the number of commits, Events the number of events in them.
	Batches, Events int64
	// Appending is the time that the commits took.
	Appending time.Duration
	// Jumps counts jumps of the wall clock, Failures failed appends. Refused counts the failed appends that
	// wrote nothing, after which each task was tried alone.
	Jumps, Failures, Refused int64
}

// Stats returns the counts.
func (x *Exchange) Stats() Stats {
	return Stats{
		Batches: x.stats.batches.Load(), Events: x.stats.events.Load(), Appending: time.Duration(x.stats.appending.Load()),
		Jumps: x.stats.jumps.Load(), Failures: x.stats.failures.Load(), Refused: x.stats.refused.Load(),
	}
}
