package exchange

import "time"

const (
	// minAppend is what an append takes at least of what time brings, however little space the journal has: a few events.
	minAppend = 4 << 10
	// Each time in a row that a full journal takes nothing, what time brings waits twice as long, from fullPause to maxFullPause: each
	// try loads the whole journal and folds it.
	fullPause, maxFullPause = time.Second, time.Minute
)

// fullness says for how long nothing is tried of what time brings, because the journal has no space for it. Commands are still tried,
// because they may make space. An append that succeeds ends it.
type fullness struct {
	pause time.Duration
	until time.Time
}

func (f *fullness) pauses(now time.Time) bool { return now.Before(f.until) }

// refused notes that the journal had no space for the smallest append.
func (f *fullness) refused(now time.Time) {
	f.pause = min(max(2*f.pause, fullPause), maxFullPause)
	f.until = now.Add(f.pause)
}
