package exchange

import "time"

const (
	// minAppend is the least size of an append, in bytes: a few events.
	minAppend = 4 << 10
	// Ticks pause for fullPause after a full journal refused the smallest append, and twice as long
	// after each further time, up to maxFullPause. Each try loads and compacts the whole journal.
	fullPause, maxFullPause = time.Second, time.Minute
)

// fullness pauses ticks while the journal has no space for their events. Commands are still tried, because
// they may make space. A successful append ends the pause.
type fullness struct {
	pause time.Duration
	until time.Time
}

func (f *fullness) pauses(now time.Time) bool { return now.Before(f.until) }

// refused records that the journal had no space for the smallest append.
func (f *fullness) refused(now time.Time) {
	f.pause = min(max(2*f.pause, fullPause), maxFullPause)
	f.until = now.Add(f.pause)
}
