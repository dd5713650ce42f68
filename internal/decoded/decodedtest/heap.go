// Package decodedtest measures for tests what the bounds of package decoded are for.
package decodedtest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// HeapDuring returns the most heap that do keeps in use, beside what the process has already, in MiB. It counts what a
// collection finds in use, not garbage: how much of that there is depends on how busy the machine is. Collections begin
// whenever the heap has grown by a fifth.
func HeapDuring(do func()) (most int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	heap := func() int64 { metrics.Read(sample); return int64(sample[0].Value.Uint64()) }
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	before, done, over := heap(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			most = max(most, heap()-before)
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	<-over
	return most >> 20
}
