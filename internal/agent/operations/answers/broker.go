package answers

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/catalog"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/transport"
)

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// lostWithin is how long a broker may take to answer that is lost: it may be back.
const lostWithin = 5 * time.Second

// Brokers is what users read of other clusters. It asks the brokers. Without a broker, the
// connectors of sellers show their offers, and the copy of the catalog shows those of the others.
type Brokers struct {
	session.Relay
	// Connectors shows what the connectors of sellers show that are known here or, added, only of those
	// whose address an admin named.
	Connectors interface {
		Catalog(ctx context.Context, q api.CatalogQuery, added bool) []listing
	}
	Copy  *catalog.Cache
	Clock clock.WithDelayedExecution
}

var _ transport.Broker = Brokers{}

// Catalog returns what all brokers show, each offer once. For a broker that does not answer, the copy shows
// its offers. The connectors that an admin added are asked too and, where no broker answers, those of all
// known sellers.
func (b Brokers) Catalog(ctx context.Context, q api.CatalogQuery) ([]listing, error) {
	asked := b.Sessions.Brokers()
	found, failed := make([][]listing, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, f := range asked {
		all.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if f.Connection().IsLost(0) {
				defer b.Clock.AfterFunc(lostWithin, cancel).Stop()
			}
			found[i], failed[i] = f.Broker.Catalog(ctx, q)
		})
	}
	added := b.Connectors.Catalog(ctx, q, true)
	all.Wait()
	out := added
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
	case len(asked) == 1 && len(added) == 0 && (err == nil || api.CodeOf(err) != api.CodeUnavailable):
		return out, err
	case len(asked) == 0:
		err = api.Errorf(api.CodeUnavailable, "all brokers are disabled here").FixBy("see", "bourse", "brokers")
	}
	now := b.Clock.Now()
	if answered == 0 {
		out = append(out, b.Connectors.Catalog(ctx, q, false)...)
		lost = b.Copy.Routes()
	}
	copied, has := b.Copy.Search(lost, q, now)
	if out = append(out, copied...); answered == 0 && len(out) == 0 && !has {
		return nil, err
	}
	return catalog.Merge(out, q, now), nil
}

// Offer returns one offer. Errors: NotFound; Unavailable while no broker answers.
func (b Brokers) Offer(ctx context.Context, seller, name string) (offer listing, err error) {
	if asked := b.Sessions.Brokers(); len(asked) == 1 {
		offer, err = asked[0].Broker.Offer(ctx, seller, name)
		if code := api.CodeOf(err); err == nil || code != api.CodeUnavailable && code != api.CodeNotFound {
			return offer, err
		}
	}
	found, failed := b.Catalog(ctx, api.CatalogQuery{Seller: seller, Hidden: true})
	for _, l := range found {
		if l.Payload.Name == name {
			return l, nil
		}
	}
	if err = cmp.Or(failed, err); err == nil {
		err = api.Errorf(api.CodeNotFound, "no offer %.63s/%.63s that is shown to you", seller, name).
			FixBy("see", "bourse", "catalog")
	}
	return offer, err
}
