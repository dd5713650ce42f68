package direct

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Catalog returns what the connectors show that this cluster knows, as far as they answer in time. added
// asks only those whose address an admin of this cluster named.
func (s *Sellers) Catalog(ctx context.Context, q api.CatalogQuery, added bool) []api.Envelope[api.Listing] {
	asked := func(m *market.Member) bool {
		return (m.Address != "" || !added) && (q.Seller == "" || q.Seller == m.Cluster)
	}
	return askAll(ctx, s, asked, maxList,
		func(ctx context.Context, _ string, seller *transport.HTTP) ([]api.Envelope[api.Listing], error) {
			return seller.Catalog(ctx, q)
		})
}

// maxAnswers is how many bytes a seller's list of this cluster's proposals may have: it keeps eight of each buyer, and a
// document has up to 4 KiB.
const maxAnswers = 128 << 10

// Proposals returns what those sellers that are asked, and answer in time, say that this cluster proposed. The Seller of
// each is the one that says it.
func (s *Sellers) Proposals(ctx context.Context, asked func(seller string) bool) []api.Envelope[api.KnownProposal] {
	return askAll(ctx, s, func(m *market.Member) bool { return asked(m.Cluster) }, maxAnswers,
		func(ctx context.Context, name string, seller *transport.HTTP) ([]api.Envelope[api.KnownProposal], error) {
			found, err := seller.Proposals(ctx)
			for i := range found {
				found[i].Payload.Proposal.Seller = name
			}
			return found, err
		})
}

// Propose sends a signed proposal to a seller's connector. Errors: Unavailable; the seller's.
func (s *Sellers) Propose(ctx context.Context,
	seller, document string) (sent api.Envelope[api.KnownProposal], err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	broker, err := s.call(ctx, seller, maxList)
	if err != nil {
		return sent, err
	}
	if err := s.meet(ctx, seller, broker); err != nil {
		return sent, err
	}
	return broker.SendProposal(ctx, document)
}

// askAll reads a list, of at most so many bytes, at those of the known connectors that are asked, as far as they answer
// in time.
func askAll[T any](ctx context.Context, s *Sellers, asked func(*market.Member) bool, most int64,
	read func(context.Context, string, *transport.HTTP) ([]T, error)) (all []T) {
	var names []string
	members, _ := s.Ledger.Members(ctx)
	for _, known := range members {
		if known.ConnectorURL() != "" && known.Cluster != s.Cluster && asked(known) {
			names = append(names, known.Cluster)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	found := make([][]T, len(names))
	lists := min(maxLists, debug.SetMemoryLimit(-1)/partOfLists) // all answers are held at the same time
	share := min(most, lists/int64(max(1, len(names))))
	var calls sync.WaitGroup
	for i, name := range names {
		calls.Go(func() {
			seller, err := s.call(ctx, name, share)
			if err == nil && s.meet(ctx, name, seller) == nil {
				found[i], _ = read(ctx, name, seller)
			}
		})
	}
	calls.Wait()
	return slices.Concat(found...)
}

// Bounds on what the agent decodes of the watch of one connector, in bytes of memory: at once, and a second after that.
const watchAtOnce, watchPerSecond = 4 << 20, 1 << 20

// call returns the connector of a seller as a broker. Its lists may have so many bytes.
// Errors: those of connect.
func (s *Sellers) call(ctx context.Context, seller string, lists int64) (*transport.HTTP, error) {
	to, err := s.connect(ctx, seller)
	if err != nil {
		return nil, err
	}
	return transport.NewHTTP(s.Cluster, client.New(to.url, &http.Client{Transport: to}).
		WithLists(lists).WithPace(watchAtOnce, watchPerSecond)), nil
}

// meet shows this cluster's card to a seller. If no key of the seller is pinned yet, or the admin named another one,
// its own card is read, which pins the key that the connection has proven. Errors: those of the call; KeyChanged.
func (s *Sellers) meet(ctx context.Context, name string, seller transport.Broker) error {
	err := s.introduce(ctx, name, seller)
	if err != nil && strings.Contains(err.Error(), "remote error: tls: bad certificate") {
		err = api.Errorf(api.CodeForbidden, "%s does not know the key of this cluster", name).
			Fix("ask its admin for: bourse peers add %s --fingerprint %s", s.Cluster, s.Key.Public().Fingerprint())
	}
	if s.Contacted != nil && ctx.Err() == nil {
		s.Contacted(name, err)
	}
	return err
}

func (s *Sellers) introduce(ctx context.Context, name string, seller transport.Broker) error {
	if err := session.ShowCard(ctx, s.Ledger, s.Cluster, seller); err != nil {
		return err
	}
	known, err := s.Ledger.Member(ctx, name)
	if met := known != nil && known.Key != "" && known.Expected() == ""; err != nil || met {
		return err
	}
	cluster, err := seller.Cluster(ctx, name)
	if err != nil {
		return err
	}
	_, _, err = s.Trust.Meet(ctx, s.Ledger, cluster.Payload.Card, name)
	return err
}

// explain gives the error for another key its remedy.
func explain(err error) error {
	other, ok := errors.AsType[*clusterkey.OtherKeyError](err)
	if !ok {
		return err
	}
	return api.Errorf(api.CodeKeyChanged, "%s", err).
		Fix("ask its admin; if the cluster was installed again, take the fingerprint that bourse status prints there: "+
			"bourse peers add %s --fingerprint FINGERPRINT", other.Cluster)
}
