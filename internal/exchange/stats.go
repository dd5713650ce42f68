package exchange

import (
	"sync/atomic"
	"time"
)

// stats are counted by the owner and read by anyone.
type stats struct {
	now, batches, events, jumps, failures, refused atomic.Int64
	appending                                      atomic.Int64 // nanoseconds in Append
	start                                          time.Time
	step                                           atomic.Int64 // nanoseconds from start to when the owner began what it does now
}

// begin notes that the owner begins another step.
func (s *stats) begin() { s.step.Store(int64(time.Since(s.start))) }

// Busy is for how long the owner has been at its present step: a batch, its commit, a load of the journal. Between steps it looks
// at the time every TickEvery. It is the machine's time, whatever the Clock says.
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

// Stats are counts since the start.
type Stats struct {
	// Batches is how many commits the journal took, Events how many events were in them.
	Batches, Events int64
	// Appending is the time spent in them.
	Appending time.Duration
	// Jumps is how often the wall clock jumped, Failures how often an append failed, Refused how many of these wrote nothing, so that
	// their orders were tried again one by one.
	Jumps, Failures, Refused int64
}

// Stats returns the counts.
func (x *Exchange) Stats() Stats {
	return Stats{
		Batches: x.stats.batches.Load(), Events: x.stats.events.Load(), Appending: time.Duration(x.stats.appending.Load()),
		Jumps: x.stats.jumps.Load(), Failures: x.stats.failures.Load(), Refused: x.stats.refused.Load(),
	}
}
