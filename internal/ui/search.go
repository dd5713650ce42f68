package ui

import (
	"context"
	"maps"
	"net/http"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// search reads what has names. What the user may not see is left out.
func (u *UI) search(ctx context.Context, _ *http.Request) content {
	e := pages.Everything{Borrowed: u.borrowed(ctx)}
	e.Failed = maps.Clone(e.Borrowed.Failed)
	failed := func(kind string, err error) {
		if err != nil && api.CodeOf(err) != api.CodeForbidden {
			e.Failed[kind] = asError(err)
		}
	}
	var err error
	e.Others.Clusters, err = u.source.clusters(ctx)
	failed("Clusters", err)
	e.Others.Peers, _ = u.o.Reads.Peers(ctx) // a cluster that the user may not list as a Peer is found as a cluster
	e.Offers, err = u.o.Reads.Offers(ctx)
	failed("Offers of this cluster", err)
	e.Listed, err = u.source.offers(ctx)
	failed("Offers of other clusters", err)
	e.Brokers, err = u.source.brokers(ctx)
	failed("Brokers", err)
	return content{title: "Search", body: func(v pages.View) templ.Component { return pages.Search(v, e) }}
}
