package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// proposalRoutes are for a connector: a buyer proposes other terms for a plan, and reads its proposals. The
// seller's Ledger keeps them.
func (s *Server) proposalRoutes() {
	huma.Register(s.api, operation("send-proposal", http.MethodPost, "/proposals",
		"Propose other terms for a plan of this seller"), s.propose)
	huma.Register(s.api, operation("list-proposals", http.MethodGet, "/proposals",
		"List the caller's proposals, with their answers"), s.listProposals)
}

func (s *Server) propose(ctx context.Context, in *struct {
	Body api.SignedDocument
}) (*body[api.Envelope[api.KnownProposal]], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	key, err := clusterkey.ParsePublicKey(l.Member.Key)
	if err != nil {
		return nil, err
	}
	p, err := trust.Proposal(in.Body.Document, key)
	if err != nil {
		return nil, wrap(err)
	}
	if p.Buyer != l.Cluster {
		return nil, api.Errorf(api.CodeBadSignature, "the proposal is of another buyer, %.63s", p.Buyer)
	}
	offer, err := s.getOffer(ctx, &OfferPath{ClusterPath{p.Seller}, p.Offer})
	if err != nil {
		return nil, err
	}
	if offer.Body.Payload.Offer.Plan(p.Plan) == nil {
		return nil, api.Errorf(api.CodeNotFound, "offer %s has no plan %.63s", offer.Body.ID, p.Plan).At("plan")
	}
	s.limits.chargeWork(CallerOf(ctx), perCard)
	kept := market.Proposal{ID: trust.ProposalID(in.Body.Document),
		Document: in.Body.Document, Expires: market.At(p.Expires.Time)}
	out, err := s.Ledger.Do(ctx, market.Propose{Buyer: l.Cluster, Proposal: kept})
	if err != nil {
		return nil, wrap(err)
	}
	if s.Proposed != nil {
		s.Proposed(kept.ID)
	}
	known := ProposalOf(out.Member.Proposal(kept.ID))
	return &body[api.Envelope[api.KnownProposal]]{known}, nil
}

func (s *Server) listProposals(ctx context.Context, in *struct{ Page }) (*body[page[api.KnownProposal]], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	var items []api.Envelope[api.KnownProposal]
	err = s.Ledger.Read(ctx, func(m *market.State) {
		if buyer := m.Member(l.Cluster); buyer != nil {
			items = Proposals(buyer, s.Ledger.Now())
		}
	})
	return &body[page[api.KnownProposal]]{cut(items, in.Page)}, wrap(err)
}

// Proposals returns what a cluster proposed that has not expired.
func Proposals(buyer *market.Member, now market.Time) (out []api.Envelope[api.KnownProposal]) {
	for p := range slices.Values(buyer.Proposals) {
		if p.Expires > now {
			out = append(out, ProposalOf(&p))
		}
	}
	return out
}

// ProposalOf returns a proposal of a Ledger, which was verified before it was kept.
func ProposalOf(p *market.Proposal) api.Envelope[api.KnownProposal] {
	out := api.KnownProposal{Document: p.Document, Digest: clusterkey.Digest(p.Document).String(), Answer: p.Answer, Countered: p.Countered,
		Declined: p.Declined, Reason: p.Reason}
	_ = trust.Claimed(p.Document, &out.Proposal)
	return api.Envelope[api.KnownProposal]{ID: p.ID, Payload: out}
}
