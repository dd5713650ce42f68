package broker

import (
	"runtime/debug"
	"testing"
)

var garbage []byte

// A broker at rest gives back what it does not need, and one that is busy keeps it.
func TestGivesBackAtRest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	debug.FreeOSMemory()
	start := readHeap()
	garbage = make([]byte, 3*needless)
	for i := range garbage {
		garbage[i] = 1
	}
	garbage = nil
	busy := readHeap()
	if lookAtRest(busy.allocated - restless); readHeap().kept < busy.kept {
		t.Errorf("a busy broker gave memory back: it had %d bytes, it has %d", busy.kept, readHeap().kept)
	}
	lookAtRest(start.allocated)
	if now := readHeap(); now.kept > busy.kept-2*needless {
		t.Errorf("a broker at rest keeps %d bytes of %d, %d were garbage", now.kept, busy.kept, 3*needless)
	}
	if before := readHeap(); lookAtRest(before.allocated) < before.allocated {
		t.Error("what was allocated is not counted on")
	}
}

// A broker collects its garbage before it takes all the memory of its container. The machine needs a part
// of that memory for the container.
func TestLeavesMemoryToTheMachine(t *testing.T) {
	for _, gogc := range []string{"", "100"} {
		t.Setenv("GOGC", gogc)
		const limit = 1000 << 20
		before := debug.SetMemoryLimit(limit)
		defer debug.SetMemoryLimit(before)
		undo := CollectRarely()
		if now := debug.SetMemoryLimit(-1); now != 900<<20 {
			t.Errorf("GOGC=%s: Go may take %d bytes of %d", gogc, now, limit)
		}
		if undo(); debug.SetMemoryLimit(-1) != limit {
			t.Errorf("GOGC=%s: it is not undone", gogc)
		}
	}
}
