package localapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
)

// proposal is one as users see it.
type proposal = api.Envelope[api.KnownProposal]

// standsFor is for how long a proposal stands by default, and answerStands for how long its answer is on sale.
const standsFor, answerStands = 72 * time.Hour, 7 * 24 * time.Hour

// Propose signs a proposal and sends it to the seller's connector. Errors: Invalid; Unavailable; the seller's.
func (c *Cluster) Propose(ctx context.Context, p api.ProposalCreate) (proposal, error) {
	within := standsFor
	if p.Within != nil {
		within = p.Within.Duration
	}
	if within < time.Minute || within > answerStands {
		return proposal{}, api.Invalid("within", "a proposal cannot be open for %s", within).
			Fix("give a duration from 1m to %s", answerStands)
	}
	now := c.o.Ledger.Now().Go().UTC().Truncate(time.Second)
	signed := api.Proposal{
		Protocol: api.Protocol, Buyer: c.o.Cluster, Seller: p.Seller, Offer: p.Offer, Plan: p.Plan,
		ProposalTerms: p.ProposalTerms, Issued: metav1.NewTime(now), Expires: metav1.NewTime(now.Add(within)),
	}
	if err := trust.CheckProposal(&signed); err != nil {
		return proposal{}, err
	}
	document, err := c.o.Member.Key().Sign(api.DocumentProposal, signed)
	if err != nil {
		return proposal{}, err
	}
	if _, err := c.o.Requests.Propose(ctx, p.Seller, document); err != nil {
		return proposal{}, err
	}
	return server.ProposalOf(&market.Proposal{ID: trust.ProposalID(document), Document: document}), nil
}

// Proposals returns those that this cluster received, and those that it made. It leaves out what a seller says
// of one that this cluster did not sign, or sent to another seller.
func (c *Cluster) Proposals(ctx context.Context) (all []proposal, err error) {
	for _, proposal := range c.o.Requests.Proposals(ctx) {
		signed, wrong := trust.Proposal(proposal.Payload.Document, c.o.Member.Key().Public())
		if wrong != nil || signed.Buyer != c.o.Cluster || signed.Seller != proposal.Payload.Proposal.Seller ||
			proposal.Payload.Answer != "" && market.ValidCluster("answer", proposal.Payload.Answer) != nil {
			continue
		}
		proposal.ID, proposal.Payload.Proposal = trust.ProposalID(proposal.Payload.Document), *signed
		proposal.Payload.Digest = clusterkey.Digest(proposal.Payload.Document).String()
		proposal.Payload.Reason = trust.Text(proposal.Payload.Reason)
		all = append(all, proposal)
	}
	members, err := readLedger(ctx, c.o.Ledger.Members)
	for _, buyer := range members {
		all = append(all, server.Proposals(buyer, c.o.Ledger.Now())...)
	}
	return all, err
}

// AnswerProposal puts an offer on sale that only the buyer of a proposal sees: its plan with the proposed terms,
// or with those that a names. Or it declines. Errors: NotFound; Conflict if two buyers' proposals have the ID, or
// if it is another proposal than a names; Invalid.
func (c *Cluster) AnswerProposal(ctx context.Context, id string, a api.ProposalAnswer) (proposal, error) {
	if err := trust.CheckTerms(&a.ProposalTerms); err != nil {
		return proposal{}, err
	}
	found, err := c.findProposal(ctx, id)
	buyers, asked, base := found.buyers, found.asked, found.base
	switch {
	case err != nil:
		return proposal{}, err
	case len(buyers) == 0:
		return proposal{}, api.Errorf(api.CodeNotFound, "this cluster received no proposal %.63q, or it has expired", id).
			Fix("see: bourse proposals")
	case len(buyers) > 1:
		return proposal{}, api.Errorf(api.CodeConflict, "%d clusters sent a proposal %s", len(buyers), id).
			Fix("make an offer for one of them: bourse offer create NAME --to CLUSTER")
	case a.Digest != "" && a.Digest != clusterkey.Digest(found.document).String():
		return proposal{}, api.Errorf(api.CodeConflict, "proposal %s is another document than the one with digest %.128q",
			id, a.Digest).At("digest").Fix("read it again, and name its digest: bourse proposals -o wide")
	case a.Decline:
		return c.decline(ctx, buyers[0], id, a.Message)
	case base == nil || base.Signed.Offer.Plan(asked.Plan) == nil:
		return proposal{}, api.Errorf(api.CodeConflict, "%s/%s is not on sale any more", asked.Offer, asked.Plan).
			Fix("put it on sale, or make an offer: bourse offer create NAME --to %s", buyers[0])
	}
	t := a.ProposalTerms
	countered := t.Price != nil || t.Units != 0 || t.Duration != nil
	t.Price, t.Units = cmp.Or(t.Price, asked.Price), cmp.Or(t.Units, asked.Units)
	t.Duration = cmp.Or(t.Duration, asked.Duration)
	spec := c.privateOffer(base.Signed.Offer, asked.Plan, t, buyers[0])
	if _, err := c.putOffer(ctx, id, spec, id); err != nil {
		return proposal{}, err
	}
	return c.recordAnswer(ctx, market.AnswerProposal{Buyer: buyers[0], ID: id, Answer: id, Countered: countered})
}

// received is what the Ledger has of a proposal that this cluster received.
type received struct {
	buyers   []string      // those that sent a proposal of this ID; the rest is of the last of them
	document string        // as the buyer signed it
	asked    api.Proposal  // what it says
	base     *market.Offer // the offer that it is about, nil if that is not on sale
}

// findProposal finds a proposal that has not expired. Errors: Unavailable.
func (c *Cluster) findProposal(ctx context.Context, id string) (received, error) {
	return readLedger(ctx, func(ctx context.Context) (found received, err error) {
		err = c.o.Ledger.Read(ctx, func(s *market.State) {
			var kept market.Proposal
			for _, m := range s.Members() {
				if p := m.Proposal(id); p != nil && p.Expires > c.o.Ledger.Now() {
					found.buyers, kept = append(found.buyers, m.Cluster), *p
				}
			}
			found.document, found.asked = kept.Document, server.ProposalOf(&kept).Payload.Proposal
			found.base = s.OnSale(c.o.Cluster, found.asked.Offer)
		})
		return found, err
	})
}

// decline makes no offer, and takes back the one that answered the proposal before.
func (c *Cluster) decline(ctx context.Context, buyer, id, why string) (proposal, error) {
	var made api.Offer
	err := c.o.Client.Get(ctx, client.ObjectKey{Namespace: c.o.Namespace, Name: id}, &made)
	if err == nil && made.Labels[api.AnswersLabel] == id {
		err = c.o.Client.Delete(ctx, &made)
	}
	if client.IgnoreNotFound(err) != nil {
		return proposal{}, kubeobject.Error(err)
	}
	return c.recordAnswer(ctx, market.AnswerProposal{Buyer: buyer, ID: id, Declined: true, Reason: why})
}

func (c *Cluster) recordAnswer(ctx context.Context, answer market.AnswerProposal) (proposal, error) {
	out, err := c.o.Ledger.Do(ctx, answer)
	if err != nil {
		return proposal{}, err
	}
	return server.ProposalOf(out.Member.Proposal(answer.ID)), nil
}

// privateOffer returns one plan of an offer with other terms, for one buyer, once.
func (c *Cluster) privateOffer(base api.OfferSpec, plan string, t api.ProposalTerms, buyer string) api.OfferSpec {
	p := *base.Plan(plan)
	p.Price = cmp.Or(t.Price, p.Price)
	units := t.Units
	if units == 0 {
		if units = 1; p.Units != nil {
			units = p.Units.Min
		}
	}
	p.Units, p.Quantity = &api.Units{Min: units, Max: units}, units
	exactly := &metav1.Duration{Duration: api.DurationOf(t.Duration)}
	p.MinDuration, p.MaxDuration = exactly, exactly
	until := metav1.NewTime(c.o.Ledger.Now().Go().UTC().Truncate(time.Second).Add(answerStands))
	base.Draft, base.ApproveWithin, base.ValidFrom, base.ValidUntil = false, nil, nil, &until
	base.VisibleTo, base.Plans = api.Audience{Clusters: []string{buyer}}, slices.Clone([]api.Plan{p})
	return base
}
