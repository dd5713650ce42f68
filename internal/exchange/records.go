package exchange

import (
	"context"
	"slices"

	"github.com/bourse-dev/bourse/internal/market"
)

// Self returns the cluster whose agent's market this is; empty at a broker.
func (x *Exchange) Self() string { return x.options.Self }

// Reservation returns a reservation, nil if it is not known. Errors: those of [Exchange.Read].
func (x *Exchange) Reservation(ctx context.Context, id string) (*market.Reservation, error) {
	return read(ctx, x, func(s *market.State) *market.Reservation { return s.Reservation(id) })
}

// Reservations returns the reservations in which Self is a party, the oldest change first. Errors: those of
// [Exchange.Read].
func (x *Exchange) Reservations(ctx context.Context) ([]*market.Reservation, error) {
	return read(ctx, x, func(s *market.State) []*market.Reservation { return s.Of(s.Self, 0) })
}

// Borrowed returns the reservations whose consumer is Self, the oldest change first. Errors: those of [Exchange.Read].
func (x *Exchange) Borrowed(ctx context.Context) ([]*market.Reservation, error) {
	all, err := x.Reservations(ctx)
	return slices.DeleteFunc(all, func(r *market.Reservation) bool { return r.Consumer != x.Self() }), err
}

// Lent returns the reservations whose provider is Self, the oldest change first. Errors: those of [Exchange.Read].
func (x *Exchange) Lent(ctx context.Context) ([]*market.Reservation, error) {
	all, err := x.Reservations(ctx)
	return slices.DeleteFunc(all, func(r *market.Reservation) bool { return r.Provider != x.Self() }), err
}

// Made returns the reservations that ResourceRequests of a name made, the oldest change first. Errors: those of
// [Exchange.Read].
func (x *Exchange) Made(ctx context.Context, namespace, name string) ([]*market.Reservation, error) {
	return read(ctx, x, func(s *market.State) []*market.Reservation { return s.Made(namespace, name) })
}

// Member returns a member, nil if it is not known. Errors: those of [Exchange.Read].
func (x *Exchange) Member(ctx context.Context, cluster string) (*market.Member, error) {
	return read(ctx, x, func(s *market.State) *market.Member { return s.Member(cluster) })
}

// Members returns all members by name. Errors: those of [Exchange.Read].
func (x *Exchange) Members(ctx context.Context) ([]*market.Member, error) {
	return read(ctx, x, func(s *market.State) []*market.Member { return s.Members() })
}

// read returns what look finds. Records are immutable, so callers may keep them.
func read[T any](ctx context.Context, x *Exchange, look func(*market.State) T) (found T, err error) {
	err = x.Read(ctx, func(s *market.State) { found = look(s) })
	return found, err
}
