package answers

import (
	"context"

	"github.com/bourse-dev/bourse/api"
)

// Brokers returns how all brokers of this cluster stand, the main one first.
func (c *Cluster) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return c.o.Brokers.List(ctx)
}
