package sellers

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Catalog returns what the connectors show that this cluster knows, as far as they answer in time.
func (s *Sellers) Catalog(ctx context.Context, q api.CatalogQuery) (all []api.Envelope[api.Listing]) {
	var names []string
	_ = s.Ledger.Read(ctx, func(m *market.State) {
		for _, known := range m.Members() {
			if known.Connector != "" && known.Cluster != s.Cluster && (q.Seller == "" || q.Seller == known.Cluster) {
				names = append(names, known.Cluster)
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	found := make([][]api.Envelope[api.Listing], len(names))
	share := min(maxList, maxLists/int64(max(1, len(names)))) // all answers are held at the same time
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			broker, err := s.call(ctx, name, share)
			if err == nil && brokersession.ShowCard(ctx, s.Ledger, s.Cluster, broker) == nil {
				found[i], _ = broker.Catalog(ctx, q)
			}
		})
	}
	asked.Wait()
	for _, one := range found {
		all = append(all, one...)
	}
	return all
}

// call returns the connector of a seller as a broker. Its lists may have so many bytes. Its key must be
// one that the Ledger has for the seller when the connection opens.
// Errors: Unavailable where no connector is known, or at no https URL.
func (s *Sellers) call(ctx context.Context, seller string, lists int64) (transport.Broker, error) {
	at, err := s.connectorOf(ctx, seller)
	if err != nil {
		return nil, err
	}
	if at == "" {
		return nil, api.Errorf(api.CodeUnavailable, "cluster %s has no connector that is known here, and the broker is away",
			seller).Fix("try again when the broker is back")
	}
	if u, err := url.Parse(at); err != nil || u.Scheme != "https" {
		return nil, api.Errorf(api.CodeUnavailable, "the connector of %s is at %.200q, which is no https URL", seller, at).
			Fix("ask its admin to say --connector-url https://HOST:PORT")
	}
	known := func(cluster string) []clusterkey.PublicKey {
		keys, _ := trust.Keys(s.ctx, s.Ledger, cluster) // a connection outlives the call
		return keys
	}
	config, err := s.Key.ClientTLS(s.Cluster, seller, known)
	if err != nil {
		return nil, err
	}
	return transport.NewHTTP(s.Cluster, client.New(at, &http.Client{Transport: &http.Transport{
		DialContext: s.Addresses.Dialer().DialContext, TLSClientConfig: config,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}}).WithLists(lists)), nil
}
