package gate

import (
	"context"
	"time"
)

// Revoke ends all reservations of a consumer here, and returns their IDs.
func (g *Gate) Revoke(ctx context.Context, consumer string) (ended []string, err error) {
	lent, err := g.lentTo(ctx, consumer)
	if err != nil {
		return nil, err
	}
	return g.end(ctx, lent)
}

// Reclaim takes back the contract of a reservation.
func (g *Gate) Reclaim(ctx context.Context, id string) (time.Time, error) {
	record, err := g.readOwn(ctx, id)
	if err != nil {
		return time.Time{}, err
	}
	return g.reclaim(ctx, record)
}
