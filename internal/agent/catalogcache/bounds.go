package catalogcache

import (
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/fairshare"
)

// Bounds on the copies, in bytes of memory, by estimate: of what one broker or connector shows, and of all of
// a kind together. Without them they could fill the agent's memory. While a broker or connector sends
// everything again, the copy before that counts too.
const (
	maxOfBroker, maxOfBrokers       = 32 << 20, 48 << 20
	maxOfConnector, maxOfConnectors = 8 << 20, 16 << 20
)

// admit reports whether what a broker or connector shows may take more memory. Copies that take more than an
// equal share give way. So does the copy that it is about to replace. The lock is held.
func (c *Cache) admit(via string, more int) bool {
	bound := fairshare.Bound{One: maxOfConnector, All: maxOfConnectors}
	if route.IsBroker(via) {
		bound = fairshare.Bound{One: maxOfBroker, All: maxOfBrokers}
	}
	var all []*offerCopy
	for other, held := range c.copies {
		if route.IsBroker(other) == route.IsBroker(via) {
			all = append(all, held)
		}
	}
	one := c.copies[via]
	return fairshare.Admit(bound, one, more, all) || one.yield(more) && fairshare.Admit(bound, one, more, all)
}
