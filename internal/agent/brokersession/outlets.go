package brokersession

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Outlets are where this cluster sells: its own connector, if it has one, and the brokers that it joined. A
// call goes to all of them at once.
type Outlets struct {
	transport.Broker // the main one
	Sessions         *Sessions
	Connector        *transport.Outlet // this cluster's own; nil: it has none
	// ShownAt reports whether the SharingPolicy shows what this cluster lends at the outlet of a route. Nil: it does.
	ShownAt func(via string) bool
}

// All returns them, the own connector first.
func (s Outlets) All() (out []transport.Outlet) {
	if s.Connector != nil {
		out = append(out, *s.Connector)
	}
	for _, f := range s.Sessions.Brokers() {
		out = append(out, transport.Outlet{Broker: f.Broker, Via: f.Via, Knows: f.Knows})
	}
	return out
}

// shows reports whether the SharingPolicy shows there what this cluster lends.
func (s Outlets) shows(at transport.Outlet) bool { return s.ShownAt == nil || s.ShownAt(at.Via) }

func (s Outlets) each(call func(transport.Outlet) error) error { return atOnce(s.All(), call) }

// atOnce makes a call at all outlets at once. It returns the error of the first that fails.
func atOnce(all []transport.Outlet, call func(transport.Outlet) error) error {
	failed := make([]error, len(all))
	var calls sync.WaitGroup
	for i, b := range all {
		calls.Go(func() { failed[i] = call(b) })
	}
	calls.Wait()
	return cmp.Or(failed...)
}

// Publish implements transport.Broker. It withdraws the offer where the SharingPolicy does not show it.
func (s Outlets) Publish(ctx context.Context, name, signed string) error {
	return s.each(func(b transport.Outlet) error {
		if !s.shows(b) {
			return b.Withdraw(ctx, name)
		}
		return b.Publish(ctx, name, signed)
	})
}

// Withdraw implements transport.Broker.
func (s Outlets) Withdraw(ctx context.Context, name string) error {
	return s.each(func(b transport.Outlet) error { return b.Withdraw(ctx, name) })
}

// Catalog returns what any of them shows, and the error of one that does not answer.
func (s Outlets) Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	return searchAll(ctx, s.All(), q)
}

// Shown is Catalog of the brokers where the SharingPolicy shows what this cluster lends. Errors: NotFound if
// there is none.
func (s Outlets) Shown(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	s.Connector = nil
	asked := slices.DeleteFunc(s.All(), func(b transport.Outlet) bool { return !s.shows(b) })
	if len(asked) == 0 {
		return nil, api.Errorf(api.CodeNotFound, "no broker shows what this cluster sells")
	}
	return searchAll(ctx, asked, q)
}

func searchAll(ctx context.Context, asked []transport.Outlet, q api.CatalogQuery) (all []api.Envelope[api.Listing],
	err error) {
	var mu sync.Mutex
	err = atOnce(asked, func(b transport.Outlet) error {
		found, err := b.Catalog(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	})
	return all, err
}
