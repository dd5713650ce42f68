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
	var e pages.Everything
	var noClusters, noPeers, noOffers, noListed, noBrokers error
	together(
		func() { e.Borrowed = u.borrowed(ctx) },
		func() { e.Others.Clusters, noClusters = u.source.clusters(ctx) },
		func() { e.Others.Peers, noPeers = u.o.Reads.Peers(ctx) },
		func() { e.Offers, noOffers = u.o.Reads.Offers(ctx) },
		func() { e.Listed, noListed = u.source.offers(ctx) },
		func() { e.Brokers, noBrokers = u.source.brokers(ctx) },
	)
	e.Failed = maps.Clone(e.Borrowed.Failed)
	failed := func(kind string, err error) {
		if err != nil && api.CodeOf(err) != api.CodeForbidden {
			e.Failed[kind] = asError(err)
		}
	}
	failed("Clusters", noClusters)
	if pages.IsLoading(asError(noPeers)) { // a cluster that the user may not list as a Peer is found as a cluster
		failed("Peers", noPeers)
	}
	failed("Offers of this cluster", noOffers)
	failed("Offers of other clusters", noListed)
	failed("Brokers", noBrokers)
	return content{title: "Search", body: func(v pages.View) templ.Component { return pages.Search(v, e) }}
}
