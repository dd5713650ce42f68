package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

type ClusterPath struct {
	Cluster string `path:"cluster" maxLength:"63" doc:"cluster ID"`
}

func (s *Server) clusterRoutes() {
	huma.Register(s.api, operation("list-clusters", http.MethodGet,
		"/clusters", "List the clusters that the caller may see"), s.listClusters)
	huma.Register(s.api, operation("get-cluster", http.MethodGet, "/clusters/{cluster}", "Read a cluster"), s.getCluster)
	huma.Register(s.api, operation("put-card", http.MethodPut, "/clusters/{cluster}/card",
		"Show a new signed card", noContent), s.putCard)
	huma.Register(s.api, operation("put-advertisement", http.MethodPut, "/clusters/{cluster}/advertisement",
		"Advertise, whole", noContent, s.allowLargeBody), s.putAdvertisement)
	huma.Register(s.api, operation("patch-advertisement", http.MethodPatch, "/clusters/{cluster}/advertisement",
		"Advertise what changed, or renew the lease", noContent, s.allowLargeBody, unvalidated), s.patchAdvertisement)
}

// listings returns the filter for the clusters that the caller sees: an operator sees all, a member those
// that are visible to it.
func (s *Server) listings(ctx context.Context) (func(*market.Listing) bool, error) {
	if operator(ctx) == nil {
		return func(l *market.Listing) bool { return l.Member != nil }, nil
	}
	viewer, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	return func(l *market.Listing) bool { return l.Member != nil && Sees(viewer, l) }, nil
}

func (s *Server) listClusters(ctx context.Context, in *struct{ Page }) (*body[page[api.Cluster]], error) {
	visible, err := s.listings(ctx)
	if err != nil {
		return nil, err
	}
	v, now := s.Exchange.View(), s.Exchange.Now()
	var seen []api.Envelope[*market.Listing]
	for slot := range v.Len() {
		if l := v.At(slot); visible(l) {
			seen = append(seen, api.Envelope[*market.Listing]{ID: l.Cluster, Payload: l})
		}
	}
	part := cut(seen, in.Page)
	list := page[api.Cluster]{Continue: part.Continue}
	for _, l := range part.Items { // the others cost no payload
		list.Items = append(list.Items, api.Envelope[api.Cluster]{ID: l.ID, Revision: v.Revision, Payload: cluster(l.Payload, now)})
	}
	return &body[page[api.Cluster]]{list}, nil
}

func (s *Server) getCluster(ctx context.Context, in *ClusterPath) (*body[api.Envelope[api.Cluster]], error) {
	visible, err := s.listings(ctx)
	if err != nil {
		return nil, err
	}
	v := s.Exchange.View()
	l := v.Listing(in.Cluster)
	if l == nil || !visible(l) {
		return nil, api.Errorf(api.CodeNotFound, "no cluster %.80q that shows itself to you", in.Cluster)
	}
	return &body[api.Envelope[api.Cluster]]{api.Envelope[api.Cluster]{
		ID: l.Cluster, Revision: v.Revision, Payload: cluster(l, s.Exchange.Now()),
	}}, nil
}

// checkSpeaker rejects a member that speaks for another cluster.
func (s *Server) checkSpeaker(ctx context.Context, cluster string) (*market.Listing, error) {
	l, err := s.member(ctx)
	if err == nil && l.Cluster != cluster {
		err = api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q", l.Cluster, cluster).At("cluster").
			Fix("speak for %s", l.Cluster)
	}
	return l, err
}

// perCard is the charge for a card: the market searches the reservations of its cluster for the parties
// to inform.
const perCard = 20 * inOneLook

func (s *Server) putCard(ctx context.Context, in *struct {
	ClusterPath
	Body api.SignedDocument
}) (*struct{}, error) {
	if err := s.enroll(ctx, in.Cluster, in.Body.Document); err != nil {
		return nil, wrap(err)
	}
	l, err := s.checkSpeaker(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	var card api.Card
	var former []market.Former
	if err := s.verify(in.Body.Document, api.DocumentCard, l.Member.Key, &card); err != nil {
		successor, led := trust.FindSuccessor(in.Body.Document, l.Member.Key)
		if successor == nil {
			return nil, err
		}
		card, former = *successor, led
	}
	if card.Cluster != in.Cluster {
		return nil, api.Invalid("document.cluster", "the card is of %.80q", card.Cluster).Fix("sign a card of %s", in.Cluster)
	}
	if err := market.CheckShown(&card); err != nil {
		return nil, under("document", err)
	}
	s.limits.chargeWork(CallerOf(ctx), perCard)
	_, err = s.Exchange.Do(ctx, market.PutCard{Card: card, Signed: in.Body.Document, Former: former})
	if err == nil && former != nil {
		s.Log.Info("a cluster has a new key, signed by the one before", "cluster", in.Cluster)
	}
	return nil, wrap(err)
}

// enroll registers an unknown cluster for approval, with the key of its first card. Such a cluster has a
// certificate of another CA, or comes through objects, and did not join with a token. A removed cluster
// can ask again in this way only; otherwise it needs a token or certificate issued since.
func (s *Server) enroll(ctx context.Context, cluster, signed string) error {
	c := CallerOf(ctx)
	l := s.Exchange.View().Listing(cluster)
	// with a certificate that another CA has issued since
	returns := c.Until.IsZero() || c.Certificate.Key != "" && !c.Certificate.Ours
	known := l != nil && l.Member != nil && (l.Member.State != api.MemberRemoved || !returns)
	if c.Role != tlsid.RoleCluster || c.Name != cluster || known {
		return nil
	}
	card, _, err := trust.Open(signed)
	if err != nil || card.Cluster != cluster {
		return err // the caller rejects another cluster's card later
	}
	_, err = s.Exchange.Do(ctx, market.Enroll{Cluster: cluster, Key: card.Key, Source: c.Address})
	s.Log.Info("a cluster asks to be admitted", "cluster", cluster, "from", c.Address)
	return err
}

// verify checks a signed document with a member's pinned key.
func (s *Server) verify(document, kind, key string, into any) error {
	public, err := clusterkey.ParsePublicKey(key)
	if err != nil {
		return wrap(err)
	}
	if _, err := trust.Verified(document, kind, into, public); err != nil {
		if known, ok := errors.AsType[*api.Error](err); ok && known.Remedy != "" {
			return err
		}
		return api.Errorf(api.CodeBadSignature, "%s", err).At("document").
			Fix("sign it with the cluster key that the broker knows")
	}
	return nil
}

// verifyRelayed checks a signed document that another cluster verifies too, by the member's card. Errors: also those of
// checkCard.
func (s *Server) verifyRelayed(document, kind string, m *market.Member, into any) error {
	if err := checkCard(m); err != nil {
		return err
	}
	return s.verify(document, kind, m.Key, into)
}

// checkCard rejects a member whose card has a former key. A renewed certificate brings the new key before the card does,
// and another cluster would refuse for good what it cannot verify. Errors: Unavailable.
func checkCard(m *market.Member) error {
	if m.Card == nil || m.Card.Key == m.Key {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "the card of cluster %s has a former key", m.Cluster).
		Fix("put the card with the new key, then try again")
}

func (s *Server) putAdvertisement(ctx context.Context, in *struct {
	ClusterPath
	Body api.Measurement
}) (*struct{}, error) {
	if _, err := s.checkSpeaker(ctx, in.Cluster); err != nil {
		return nil, err
	}
	return nil, wrap(s.Observe(ctx, in.Cluster, in.Body))
}

// Observe takes a complete advertisement of a member. Errors: Invalid with the field, StaleAdvertisement.
func (s *Server) Observe(ctx context.Context, cluster string, a api.Measurement) error {
	if err := checkTerms(a.Terms); err != nil {
		return err
	}
	m, err := market.Measure(a)
	if err != nil {
		return err
	}
	work := m.Size()
	if l := s.Exchange.View().Listing(cluster); l != nil {
		work += l.Measured.Size()
	}
	s.limits.chargeWork(CallerOf(ctx), work)
	if m.Terms != nil && m.Terms.Allow != "" {
		if err := s.Engine.CheckAllow(m.Terms.Allow); err != nil {
			return under("terms", err)
		}
	}
	return s.Exchange.Observe(ctx, cluster, m, true)
}

// checkTerms bounds the terms that each decision must evaluate.
func checkTerms(t *api.Terms) error {
	switch {
	case t == nil:
		return nil
	case len(t.VisibleTo.Clusters) > maxAudience:
		return api.Invalid("terms.visibleTo.clusters", "%d clusters", len(t.VisibleTo.Clusters)).
			Fix("name at most %d, or use labels", maxAudience)
	case len(t.VisibleTo.Labels) > maxLabels:
		return api.Invalid("terms.visibleTo.labels", "%d labels", len(t.VisibleTo.Labels)).Fix("name at most %d", maxLabels)
	case t.MaxDuration != nil && t.MaxDuration.Duration <= 0:
		return api.Invalid("terms.maxDuration", "%s is not positive", t.MaxDuration.Duration).Fix("leave it out for no bound")
	}
	return nil
}

// maxAudience and maxLabels equal those of the SharingPolicy.
const (
	maxAudience = 256
	maxLabels   = 32
)

func (s *Server) patchAdvertisement(ctx context.Context, in *struct {
	ClusterPath
	Body api.MeasurementDelta
}) (*struct{}, error) {
	l, err := s.checkSpeaker(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	if len(in.Body.Pools) > 0 {
		s.limits.chargeWork(CallerOf(ctx), l.Measured.Size())
	}
	m, err := l.Measured.Change(in.Body)
	if err != nil {
		return nil, err
	}
	return nil, wrap(s.Exchange.Observe(ctx, in.Cluster, m, true))
}
