package match

import "testing"

// What is known of a cluster stays known when other clusters join.
func TestCacheGrows(t *testing.T) {
	var c slotCache[int]
	three := 3
	c.open(4)[3].Store(&three)
	if known := c.open(10)[3].Load(); known != &three {
		t.Errorf("slot 3 has %v after the cache grew", known)
	}
	if size := len(c.open(2)); size != 10 {
		t.Errorf("a smaller view opens %d slots, want 10", size)
	}
}
