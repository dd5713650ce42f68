package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/requests"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// listing is an offer as the catalog shows it.
type listing = api.Envelope[api.Listing]

// sellers are the connectors of others that this cluster deals with directly: where something was bought there and lives, and,
// while the broker is away, of all with whom there is something, so that it can change and end meanwhile.
type sellers struct {
	addresses *peeraddress.Checker
	cluster   string
	key       *clusterkey.Key
	market    *exchange.Exchange
	sessions  *brokersession.Sessions
	watcher   *brokersession.Watcher
	main      *requests.Borrower // that at the main broker
	log       *slog.Logger

	mu   sync.Mutex
	open map[string]*seller
	ctx  context.Context // of what is open
	all  sync.WaitGroup
}

// seller is an open one.
type seller struct {
	*brokersession.Session
	close context.CancelFunc
	asked time.Time // when somebody last wanted to buy there
}

// Bounds on what the agent reads of the lists of connectors, in bytes: of one, which has what one seller offers, and of all that are
// asked at the same time. Decoded, a list takes at most about twice as much memory.
const maxConnectorList, maxConnectorLists = 8 << 20, 32 << 20

const (
	// lookAtSellers is how often it is looked whom to deal with directly.
	lookAtSellers = 2 * time.Second
	// patience is how long the broker is waited for before others are dealt with directly, and how long one stays
	// that was asked and did not answer yet.
	patience = 5 * time.Second
)

// run opens and closes what is needed, until ctx ends.
func (s *sellers) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	defer s.all.Wait()
	ticker := time.NewTicker(lookAtSellers)
	defer ticker.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *sellers) look(ctx context.Context) {
	needed := map[string]bool{}
	_ = s.market.Read(ctx, func(m *market.State) {
		for _, r := range m.Of(s.cluster, 0) {
			if r.Consumer == s.cluster && r.Provider != "" && r.State.Counts() && (!route.IsBroker(r.Via) || r.Acceptance != "" && s.sessions.IsLost(r.Via, patience)) {
				needed[r.Provider] = true
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.open {
		if !needed[name] && time.Since(one.asked) > time.Minute {
			one.close()
			s.sessions.Remove(one.Session)
			delete(s.open, name)
		}
	}
	for name := range needed {
		if _, err := s.session(name); err != nil {
			s.log.Debug("a seller cannot be dealt with directly", "seller", name, "error", err)
		}
	}
}

// session returns the session with a seller, which it opens if it is not open. The lock is held.
func (s *sellers) session(name string) (*seller, error) {
	if one := s.open[name]; one != nil {
		return one, nil
	}
	if s.ctx == nil || s.ctx.Err() != nil {
		return nil, api.Errorf(api.CodeUnavailable, "the agent is starting, or ending")
	}
	broker, err := callConnector(s.ctx, s.addresses, s.cluster, s.key, s.market, name, maxConnectorList)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	one := &seller{close: cancel, Session: brokersession.New(brokersession.Options{
		Via: name, Cluster: s.cluster, Key: s.key, Broker: broker, Greet: func(ctx context.Context) error { return s.introduce(ctx, broker) },
	})}
	s.open[name] = one
	s.sessions.Add(one.Session)
	s.all.Go(func() { s.watcher.Watch(ctx, one.Session) })
	return one, nil
}

// introduce shows a seller this cluster's card, by which it knows it.
func (s *sellers) introduce(ctx context.Context, to transport.Broker) error {
	var own *market.Member
	if err := s.market.Read(ctx, func(m *market.State) { own = m.Member(s.cluster) }); err != nil {
		return err
	}
	if own == nil || own.Signed == "" {
		return api.Errorf(api.CodeUnavailable, "this cluster has no card yet")
	}
	if err := to.PutCard(ctx, own.Signed); err != nil && api.CodeOf(err) != api.CodeConflict {
		return err
	}
	return nil
}

// borrower is the half that asks for a request: at the broker of a name, or the first or, while none is reached, at the seller that a
// purchase names. What has been asked for somewhere stays there; but what is bound changes at the seller's connector while that broker is
// not reached. Errors: Unavailable; Invalid for a name that no broker has.
func (s *sellers) borrower(ctx context.Context, broker string, r api.Request, ours *market.Reservation) (*requests.Borrower, error) {
	at, name := s.sessions.FirstBroker(), ""
	switch {
	case ours != nil && route.IsBroker(ours.Via):
		at = s.sessions.BrokerNamed(route.BrokerName(ours.Via))
		if removed := at == nil; removed || ours.Bound() && s.sessions.IsLost(ours.Via, 0) && s.reaches(ctx, ours.Provider) {
			name = ours.Provider
		}
	case ours != nil:
		name = ours.Via
	case broker != "":
		if at = s.sessions.BrokerNamed(broker); at == nil {
			return nil, api.Invalid("broker", "there is no broker %.63q here", broker).Fix("name one of: bourse brokers")
		}
	case r.Purchase != nil && s.sessions.AllLost(0):
		name = r.Purchase.Seller
	case at == nil:
		return s.main, nil // all are disabled: it says so
	}
	if name == "" {
		return s.main.At(at.Via, at.Broker), nil
	}
	s.mu.Lock()
	one, err := s.session(name)
	if err == nil {
		one.asked = time.Now()
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.main.At(one.Via, one.Broker), s.introduce(ctx, one.Broker)
}

// reaches says whether a cluster has a connector that is known here.
func (s *sellers) reaches(ctx context.Context, cluster string) (is bool) {
	_ = s.market.Read(ctx, func(m *market.State) {
		known := m.Member(cluster)
		is = known != nil && known.Connector != ""
	})
	return is
}

// shown is what the connectors of all whom this cluster knows show, as long as the broker is away.
func (s *sellers) shown(ctx context.Context, q api.CatalogQuery) (all []api.Envelope[api.Listing]) {
	var names []string
	_ = s.market.Read(ctx, func(m *market.State) {
		for _, known := range m.Members() {
			if known.Connector != "" && known.Cluster != s.cluster && (q.Seller == "" || q.Seller == known.Cluster) {
				names = append(names, known.Cluster)
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := make([][]api.Envelope[api.Listing], len(names))
	share := min(maxConnectorList, maxConnectorLists/int64(max(1, len(names)))) // what all answer is held at the same time
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			broker, err := callConnector(ctx, s.addresses, s.cluster, s.key, s.market, name, share)
			if err == nil && s.introduce(ctx, broker) == nil {
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

// away is the broker as the people of this cluster see it. While it is not there, those who sell and are known here show their offers
// themselves, and of the others the agent's copy says what there was.
type away struct {
	brokersession.Relay
	sellers  *sellers
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
		out = append(out, a.sellers.shown(ctx, q)...)
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
