package session

import (
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Outlets are where this cluster sells: see [Sessions.Outlets]. A call goes to all of them at once. One that does not
// answer holds up no offer at the others: later calls wait for it no more, until it does.
type Outlets struct {
	Sessions *Sessions
	// ShownAt reports whether the SharingPolicy shows what this cluster lends at a broker or connector.
	ShownAt func(via string) bool
}

// Publish publishes an offer. It withdraws the offer where the SharingPolicy does not show it.
func (s Outlets) Publish(ctx context.Context, name, signed string) error {
	return transport.CallAll(s.Sessions.Outlets(), func(outlet transport.Outlet) error {
		return outlet.Answers.Await(ctx, func(ctx context.Context) error {
			if !s.ShownAt(outlet.Via) {
				return outlet.Withdraw(ctx, name)
			}
			return outlet.Publish(ctx, name, signed)
		})
	})
}

// Withdraw withdraws an offer.
func (s Outlets) Withdraw(ctx context.Context, name string) error {
	return transport.CallAll(s.Sessions.Outlets(), func(outlet transport.Outlet) error {
		return outlet.Answers.Await(ctx, func(ctx context.Context) error { return outlet.Withdraw(ctx, name) })
	})
}

// Catalog returns what any of them shows, and the error of one that does not answer.
func (s Outlets) Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	return searchAll(ctx, s.Sessions.Outlets(), q)
}

// Shown is Catalog of the brokers where the SharingPolicy shows what this cluster lends. Errors: NotFound if
// there is none.
func (s Outlets) Shown(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	asked := slices.DeleteFunc(s.Sessions.Outlets(), func(outlet transport.Outlet) bool {
		return !IsBroker(outlet.Via) || !s.ShownAt(outlet.Via)
	})
	if len(asked) == 0 {
		return nil, api.Errorf(api.CodeNotFound, "no broker shows what this cluster sells")
	}
	return searchAll(ctx, asked, q)
}

func searchAll(ctx context.Context, asked []transport.Outlet, q api.CatalogQuery) (all []api.Envelope[api.Listing],
	err error) {
	var mu sync.Mutex
	err = transport.CallAll(asked, func(outlet transport.Outlet) error {
		var found []api.Envelope[api.Listing]
		if err := outlet.Answers.Await(ctx, func(ctx context.Context) (err error) {
			found, err = outlet.Catalog(ctx, q)
			return err
		}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return nil
	})
	return all, err
}
