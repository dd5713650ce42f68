package sharing

import (
	"testing"
	"time"
)

// Clusters take turns, each at its own moment of the interval. Aligned, all advertise at :00 and :30.
func TestSchedule(t *testing.T) {
	now := time.Date(2026, 1, 30, 10, 0, 12, 0, time.UTC)
	for _, cluster := range []string{"rome", "milan", "oslo"} {
		if wait := (Schedule{Interval: 30 * time.Second, Aligned: true}).untilNext(now, cluster); wait != 18*time.Second {
			t.Errorf("%s aligned: in %s", cluster, wait)
		}
		own := Schedule{Interval: 30 * time.Second}
		wait := own.untilNext(now, cluster)
		if again := own.untilNext(now.Add(wait), cluster); wait <= 0 || wait > 30*time.Second || again != 30*time.Second {
			t.Errorf("%s: in %s, then in %s", cluster, wait, again)
		}
	}
}
