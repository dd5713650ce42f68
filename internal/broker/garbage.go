package broker

import (
	"os"
	"runtime"
	"runtime/debug"
)

// CollectRarely makes garbage collection rarer than Go's default, until undone: a market's heap is what it
// must remember, and looking through all of it whenever it has doubled took a quarter of the cores under
// load, and held up who waits for an answer (docs/performance.md). It costs memory: up to four times what the market remembers. GOGC in the environment has precedence;
// GOMEMLIMIT holds as ever.
func CollectRarely() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(300)
	// A small market would still be collected dozens of times a second. This makes it larger, and takes no
	// memory itself because it is never touched.
	ballast := make([]byte, 32<<20)
	return func() {
		runtime.KeepAlive(ballast)
		debug.SetGCPercent(before)
	}
}
