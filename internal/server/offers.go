package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/trust"
)

type OfferPath struct {
	ClusterPath
	Name string `path:"name" maxLength:"63" doc:"name of the offer"`
}

func (s *Server) offerRoutes() {
	huma.Register(s.api, operation("search-catalog", http.MethodGet,
		"/catalog", "Search the offers that the caller may see"), s.catalog)
	huma.Register(s.api, operation("get-offer", http.MethodGet, "/catalog/{cluster}/{name}", "Read an offer"), s.getOffer)
	huma.Register(s.api, operation("publish-offer", http.MethodPut,
		"/clusters/{cluster}/offers/{name}", "Put a signed offer on sale", noContent), s.publishOffer)
	huma.Register(s.api, operation("withdraw-offer", http.MethodDelete, "/clusters/{cluster}/offers/{name}",
		"Take an offer off sale; what was sold of it stays sold", noContent), s.withdrawOffer)
}

// CatalogSearch is a search in the catalog.
type CatalogSearch struct {
	Text      string `query:"text" maxLength:"128" doc:"text in the seller, name, type, description or a label"`
	Seller    string `query:"seller" maxLength:"63" doc:"only offers of this cluster"`
	Type      string `query:"type" maxLength:"63" doc:"only offers of this type"`
	Region    string `query:"region" maxLength:"128" doc:"only offers of sellers in this region"`
	GPU       string `query:"gpu" maxLength:"128" doc:"only plans with a GPU, of sellers that have a GPU whose name contains this"`
	SellerGPU string `query:"sellerGpu" maxLength:"128" doc:"only offers of sellers that have a GPU whose name contains this, also plans without a GPU"`
	Currency  string `query:"currency" maxLength:"3" doc:"only plans in this currency, and free plans"`
	MaxPrice  string `query:"maxPrice" maxLength:"40" doc:"only plans whose smallest purchase costs at most this (3EUR/hour), for the requested time"`
	Available bool   `query:"available" doc:"only plans that are not sold out"`
	For       string `query:"for" maxLength:"32" doc:"only plans that are sold for this long (Go duration), with their cost for it; default: plans of any duration, with the cost of 1h"`
	Hidden    bool   `query:"hidden" doc:"also offers of sellers that have been silent for more than a day"`
	Uptime    int64  `query:"uptime" minimum:"0" maximum:"1000000" doc:"only offers of sellers with at least this uptime over the last 30 days, in parts per million"`
	Sort      string `query:"sort" enum:"name,price,region,uptime" doc:"the order; by price: free offers first, then one currency after the other; by uptime: highest first"`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"largest number of offers"`
	Continue  string `query:"continue" maxLength:"20" doc:"continue of the last answer: how many offers to skip"`
}

func (in *CatalogSearch) query() (api.CatalogQuery, error) {
	q := api.CatalogQuery{
		Text: in.Text, Seller: in.Seller, Type: in.Type, Region: in.Region, GPU: in.GPU,
		SellerGPU: in.SellerGPU, Currency: in.Currency,
		Available: in.Available, Hidden: in.Hidden, Uptime: in.Uptime,
	}
	if in.Sort != "name" {
		q.Sort = api.CatalogOrder(in.Sort)
	}
	if in.For != "" {
		var err error
		if q.For, err = time.ParseDuration(in.For); err != nil || q.For <= 0 || q.For > api.LongestDuration {
			return q, api.Invalid("for", "%.40q is not a duration", in.For).
				Fix("write 30m, 8h or 720h; at most %s", api.LongestDuration)
		}
	}
	if in.MaxPrice != "" {
		var err error
		if q.MaxPrice, err = money.Read("maxPrice", in.MaxPrice); err != nil {
			return q, err
		}
	}
	return q, nil
}

// maxFrom is greater than the number of offers.
const maxFrom = 1 << 30

func (s *Server) catalog(ctx context.Context, in *CatalogSearch) (*body[page[api.Listing]], error) {
	card, err := s.callerCard(ctx)
	if err != nil {
		return nil, err
	}
	query, err := in.query()
	if err != nil {
		return nil, err
	}
	from := 0
	if in.Continue != "" {
		if from, err = strconv.Atoi(in.Continue); err != nil || from < 0 || from > maxFrom {
			return nil, api.Invalid("continue", "%.40q is not the continue of an answer", in.Continue).
				Fix("search again without it")
		}
	}
	now := s.Exchange.Now()
	view := s.Exchange.View()
	if query.Seller == "" {
		s.limits.chargeWork(CallerOf(ctx), view.Len())
	}
	found := s.Engine.Catalog(view, card, query, now, from+in.Limit+1)
	found = found[min(from, len(found)):]
	list := page[api.Listing]{after: func(sent int) string { return fmt.Sprintf("%08d", from+sent) }}
	for i := range found[:min(len(found), in.Limit)] {
		list.Items = append(list.Items, listing(&found[i], now, cmp.Or(query.For, time.Hour)))
	}
	if len(found) > in.Limit {
		list.Continue = list.after(in.Limit)
	}
	return &body[page[api.Listing]]{list}, nil
}

func (s *Server) getOffer(ctx context.Context, in *OfferPath) (*body[api.Envelope[api.Listing]], error) {
	card, err := s.callerCard(ctx)
	if err != nil {
		return nil, err
	}
	now := s.Exchange.Now()
	for _, found := range s.Engine.Catalog(s.Exchange.View(), card,
		api.CatalogQuery{Seller: in.Cluster, Hidden: true}, now, api.MaxOffers) {
		if found.Signed.Name == in.Name {
			return &body[api.Envelope[api.Listing]]{listing(&found, now, time.Hour)}, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no offer %.63s/%.63s that is shown to you", in.Cluster, in.Name).
		FixBy("see", "bourse", "catalog")
}

// callerCard returns the card for which offers are shown to the caller. An operator sees the public ones.
func (s *Server) callerCard(ctx context.Context) (*api.Card, error) {
	if operator(ctx) == nil {
		return &api.Card{}, nil
	}
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	card := l.Card()
	return &card, nil
}

// listing returns an offer as the catalog shows it, with its cost for a duration.
func listing(f *match.Found, now market.Time, d time.Duration) api.Envelope[api.Listing] {
	out := api.Listing{
		Seller: f.Signed.Seller, Name: f.Signed.Name, Version: f.Signed.Version,
		Digest: f.Digest, Document: f.Document, Offer: f.Signed.Offer,
		Properties: f.Card().Properties, Fresh: f.Fresh(now), Plans: map[string]api.PlanListing{},
	}
	out.SilentSince, out.Fading = silence(f.Listing, now)
	if f.Uptime != market.UnknownUptime {
		out.Uptime = &f.Uptime
	}
	for _, p := range f.Plans {
		left := api.PlanListing{Remaining: p.Remaining}
		if !p.Price.Free() {
			left.Cost = money.Text(p.Price.Cost(p.Min, now.Go(), d), p.Price.Currency)
		}
		out.Plans[p.Name] = left
	}
	return api.Envelope[api.Listing]{ID: f.Key(), Revision: uint64(f.Signed.Version), Payload: out}
}

// silence returns since when a seller is silent, and how far its offers have faded.
func silence(l *market.Listing, now market.Time) (since *metav1.Time, fading api.Fading) {
	if fading = match.FadingOf(l, now); fading == "" {
		return nil, ""
	}
	at := (now - l.Silent).Meta()
	return &at, fading
}

func (s *Server) publishOffer(ctx context.Context, in *struct {
	OfferPath
	Body api.SignedDocument
}) (*struct{}, error) {
	l, err := s.checkSpeaker(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	offer, err := s.offer(in.Body.Document, l.Member.Key)
	if err != nil {
		return nil, wrap(err)
	}
	if offer.Signed.Seller != l.Cluster || offer.Signed.Name != in.Name {
		return nil, api.Invalid("document", "it is offer %s", offer.Key()).Fix("sign offer %s/%s", l.Cluster, in.Name)
	}
	_, err = s.Exchange.Do(ctx, market.Publish{Offer: offer})
	return nil, wrap(err)
}

// SignedOffer reads and checks an offer that a member signed. Errors: NotMember; BadSignature; Invalid.
func (s *Server) SignedOffer(cluster, document string) (*market.Offer, error) {
	l := s.Exchange.View().Listing(cluster)
	if l == nil || l.Member == nil {
		return nil, api.Errorf(api.CodeNotMember, "cluster %s is not a member", cluster)
	}
	return s.offer(document, l.Member.Key)
}

// offer reads and checks a signed offer.
func (s *Server) offer(document, key string) (*market.Offer, error) {
	var signed api.SignedOffer
	if err := s.verify(document, api.DocumentOffer, key, &signed); err != nil {
		return nil, err
	}
	public, err := clusterkey.ParsePublicKey(key)
	if err != nil {
		return nil, err
	}
	offer, err := trust.Offer(document, public)
	if err == nil {
		err = s.Engine.CheckAccept(offer.Signed.Offer.Accept)
	}
	if err != nil {
		return nil, under("document", err)
	}
	return offer, nil
}

func (s *Server) withdrawOffer(ctx context.Context, in *OfferPath) (*struct{}, error) {
	l, err := s.checkSpeaker(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	_, err = s.Exchange.Do(ctx, market.Withdraw{Seller: l.Cluster, Name: in.Name})
	return nil, wrap(err)
}
