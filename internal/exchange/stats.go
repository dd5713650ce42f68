package exchange

import (
	"sync/atomic"
	"time"
)

// stats are counted by the owner and read by anyone.
type stats struct {
	now, batches, events, jumps, failures atomic.Int64
	appending                             atomic.Int64 // nanoseconds in Append
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
	// Jumps is how often the wall clock jumped, Failures how often an append failed.
	Jumps, Failures int64
}

// Stats returns the counts.
func (x *Exchange) Stats() Stats {
	return Stats{
		Batches: x.stats.batches.Load(), Events: x.stats.events.Load(), Appending: time.Duration(x.stats.appending.Load()),
		Jumps: x.stats.jumps.Load(), Failures: x.stats.failures.Load(),
	}
}
