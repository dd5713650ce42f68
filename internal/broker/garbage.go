package broker

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	gauges "runtime/metrics"
	"time"
)

// CollectRarely sets GOGC to 300 until undone, where the environment does not set it. A market's heap is what it must remember: to mark all of
// it whenever it has doubled took a quarter of the cores under load, and delayed answers (docs/performance.md). It costs memory: up to four
// times what the market remembers, or nine tenths of GOMEMLIMIT if that is less. The manifest sets GOMEMLIMIT to the limit of the container,
// which also counts what Go does not: the buffers of sockets and the database.
func CollectRarely() (undo func()) {
	limit := debug.SetMemoryLimit(-1)
	if limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	if os.Getenv("GOGC") != "" {
		return func() { debug.SetMemoryLimit(limit) }
	}
	before := debug.SetGCPercent(300)
	return func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	}
}

const (
	// restEvery is how often a broker looks whether it has come to rest: when less than restless bytes were allocated since.
	restEvery = 10 * time.Second
	restless  = 128 << 20
	// needless is how much a broker at rest may keep of what it does not need, or a quarter of what lives if that is more.
	needless = 32 << 20
)

// giveBack lets a broker that has come to rest collect its garbage and give the memory back, until ctx ends. With so rare
// collections it would otherwise keep for ever what it took in its busiest minute: for 10,000 agents that all connect at once,
// more than they need.
func giveBack(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	ticker := time.NewTicker(restEvery)
	defer ticker.Stop()
	allocated := readHeap().allocated
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			allocated = lookAtRest(allocated)
		}
	}
}

// lookAtRest gives back what is not needed, if little was allocated since so much had been, and returns how much that is now.
func lookAtRest(since uint64) uint64 {
	h := readHeap()
	if h.allocated-since < restless && h.kept > h.live+max(needless, h.live/4) {
		debug.FreeOSMemory()
		h = readHeap()
	}
	return h.allocated
}

// heap is what the heap is, in bytes: allocated since the start, alive at the last collection, and kept from the machine as objects, dead
// or alive, or free. What is free between objects is not among it: it cannot be given back.
type heap struct{ allocated, live, kept uint64 }

func readHeap() heap {
	samples := []gauges.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	gauges.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64() + samples[3].Value.Uint64()}
}
