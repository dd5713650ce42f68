package broker

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	gauges "runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// CollectRarely sets GOGC to 300 until undone, unless the environment sets it. Most of a market's heap is
// live. Marking it after each doubling took a quarter of the cores under load and delayed answers
// (docs/performance.md). The price is memory: up to four times the live heap, or nine tenths of
// GOMEMLIMIT if that is less. The manifest sets GOMEMLIMIT to the container's limit, which also counts
// memory outside the Go heap: buffers of sockets and the database.
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
	// restEvery is the interval at which a broker checks whether it is at rest: it allocated less than
	// restless bytes since the last check.
	restEvery = 10 * time.Second
	restless  = 128 << 20
	// needless is the unneeded memory that a broker at rest may keep, in bytes, or a quarter of the live
	// heap if that is more.
	needless = 32 << 20
)

// giveBack makes a broker at rest collect its garbage and return the memory, until ctx ends. With rare
// collections it would keep the memory of its busiest minute forever. When 10,000 agents connect at
// once, that is more than they need.
func giveBack(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	allocated := readHeap().allocated
	_ = wait.PollUntilContextCancel(ctx, restEvery, false, func(context.Context) (bool, error) {
		allocated = lookAtRest(allocated)
		return false, nil
	})
	return nil
}

// lookAtRest returns unneeded memory if the broker is at rest, and returns the bytes allocated until now.
func lookAtRest(since uint64) uint64 {
	h := readHeap()
	if h.allocated-since < restless && h.kept > h.live+max(needless, h.live/4) {
		debug.FreeOSMemory()
		h = readHeap()
	}
	return h.allocated
}

// heap describes the heap, in bytes: allocated since the start; live at the last collection; and kept
// from the machine, as live or dead objects or free. It excludes free space between objects, which
// cannot be returned.
type heap struct{ allocated, live, kept uint64 }

func readHeap() heap {
	samples := []gauges.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	gauges.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(),
		samples[2].Value.Uint64() + samples[3].Value.Uint64()}
}
