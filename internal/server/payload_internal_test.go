package server

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/market"
)

// The broker says by its own clock how long ago it heard from a cluster, and nothing if it did not.
func TestAgesOfClusters(t *testing.T) {
	const now = market.Time(1_000_000_000_000)
	for until, want := range map[market.Time]time.Duration{
		now + market.Time((market.Lease - 20*time.Second).Milliseconds()): 20 * time.Second,
		now - 1: market.Lease, now + market.Time(time.Hour.Milliseconds()): 0,
	} {
		if c := cluster(&market.Listing{Member: &market.Member{}, FreshUntil: until}, now); c.HeardAgo == nil ||
			c.HeardAgo.Duration != want {
			t.Errorf("with a lease until %d: %v, want %s", until, c.HeardAgo, want)
		}
	}
	if c := cluster(&market.Listing{Member: &market.Member{}}, now); c.HeardAgo != nil {
		t.Errorf("without a lease: %v", c.HeardAgo)
	}
}
