package agent

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/sellers"
)

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// patience is how long a broker is waited for that is lost.
const patience = 5 * time.Second

// away is the broker as the people of this cluster see it. While it is not there, those who sell and are known here show their offers
// themselves, and of the others the agent's copy says what there was.
type away struct {
	brokersession.Relay
	sellers  *sellers.Sellers
	catalogs *catalogcache.Cache
}

// Catalog is what all brokers show, each offer once. Of those that are not reached, the copy is shown; where none is, the sellers are
// asked, too.
func (a away) Catalog(ctx context.Context, q api.CatalogQuery) ([]listing, error) {
	asked := a.Sessions.Brokers()
	found, failed := make([][]listing, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, f := range asked {
		all.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if f.Connection().IsLost(0) { // it may be back, and it is not waited for
				defer time.AfterFunc(patience, cancel).Stop()
			}
			found[i], failed[i] = f.Broker.Catalog(ctx, q)
		})
	}
	all.Wait()
	var out []listing
	var lost []string
	answered, err := 0, error(nil)
	for i, f := range asked {
		if out = append(out, found[i]...); failed[i] == nil {
			answered++
			continue
		}
		lost = append(lost, f.Via)
		err = cmp.Or(err, failed[i])
	}
	switch {
	case len(asked) == 1 && (err == nil || api.CodeOf(err) != api.CodeUnavailable):
		return out, err
	case len(asked) == 0:
		err = api.Errorf(api.CodeUnavailable, "all brokers are disabled here").Fix("see: bourse brokers")
	}
	now := time.Now()
	if answered == 0 {
		out = append(out, a.sellers.Catalog(ctx, q)...)
		lost = a.catalogs.Routes()
	}
	copied, has := a.catalogs.Search(lost, q, now)
	if out = append(out, copied...); answered == 0 && len(out) == 0 && !has {
		return nil, err
	}
	return catalogcache.Merge(out, q, now), nil
}

// Offer implements server.Away.
func (a away) Offer(ctx context.Context, seller, name string) (offer listing, err error) {
	if asked := a.Sessions.Brokers(); len(asked) == 1 {
		if offer, err = asked[0].Broker.Offer(ctx, seller, name); err == nil || api.CodeOf(err) != api.CodeUnavailable {
			return offer, err
		}
	}
	found, failed := a.Catalog(ctx, api.CatalogQuery{Seller: seller, Hidden: true})
	for _, l := range found {
		if l.Payload.Name == name {
			return l, nil
		}
	}
	if err = cmp.Or(failed, err); err == nil {
		err = api.Errorf(api.CodeNotFound, "no offer %.63s/%.63s that is shown to you", seller, name).Fix("see: bourse catalog")
	}
	return offer, err
}
