package catalog

import (
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/fairshare"
)

// Bounds on the copies, in bytes of memory, by estimate: of what one broker or connector shows, and of all of
// a kind together. Without them they could fill the agent's memory. While a broker or connector sends
// everything again, the copy before that counts too. All of a kind take at most a part of the memory that Go may take.
const (
	maxOfBroker, maxOfBrokers, partOfBrokers          = 32 << 20, 48 << 20, 8
	maxOfConnector, maxOfConnectors, partOfConnectors = 8 << 20, 16 << 20, 16
)

// bounds are those of the copies of brokers, and of connectors.
type bounds struct{ brokers, connectors fairshare.Bound }

// newBounds returns the bounds where Go may take limit bytes.
func newBounds(limit int64) bounds {
	return bounds{
		brokers:    fairshare.NewBound(maxOfBroker, maxOfBrokers, limit, partOfBrokers),
		connectors: fairshare.NewBound(maxOfConnector, maxOfConnectors, limit, partOfConnectors),
	}
}

// admit reports whether what a broker or connector shows may take more memory. Copies that take more than an
// equal share give way. So does the copy that it is about to replace. The lock is held.
func (c *Cache) admit(via string, more int) bool {
	bound := c.bounds.connectors
	if session.IsBroker(via) {
		bound = c.bounds.brokers
	}
	var all []*offerCopy
	for other, held := range c.copies {
		if session.IsBroker(other) == session.IsBroker(via) {
			all = append(all, held)
		}
	}
	copied := c.copies[via]
	return fairshare.Admit(bound, copied, more, all) || copied.yield(more) && fairshare.Admit(bound, copied, more, all)
}
