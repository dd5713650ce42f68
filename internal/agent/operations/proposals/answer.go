package proposals

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
)

// answer puts an offer on sale that only the buyer of a proposal sees: its plan with the proposed terms, or with those
// that a names. Or it declines. The Ledger notes the order with the answer; an order may be empty. Errors: NotFound;
// Conflict if two buyers' proposals have the ID, or if it is another proposal than a names; Invalid.
func (p *Proposals) answer(ctx context.Context, id, order string, a api.ProposalAnswer) (proposal, error) {
	if err := trust.CheckTerms(&a.ProposalTerms); err != nil {
		return proposal{}, err
	}
	found, err := p.find(ctx, id)
	buyers, asked, base := found.buyers, found.shown.Proposal, found.base
	switch {
	case err != nil:
		return proposal{}, err
	case len(buyers) == 0:
		return proposal{}, api.Errorf(api.CodeNotFound, "this cluster received no proposal %.63q, or it has expired", id).
			FixBy("see", "bourse", "proposals")
	case len(buyers) > 1:
		return proposal{}, api.Errorf(api.CodeConflict, "%d clusters sent a proposal %s", len(buyers), id).
			Fix("make an offer for one of them: bourse offer create NAME --to CLUSTER")
	case a.Digest != "" && a.Digest != found.shown.Digest:
		return proposal{}, api.Errorf(api.CodeConflict, "proposal %s is another document than the one with digest %.128q",
			id, a.Digest).At("digest").FixBy("read it again, and name its digest", "bourse", "proposals", "-o", "wide")
	case a.Decline:
		return p.decline(ctx, buyers[0], id, order, a.Message)
	case base == nil || base.Signed.Offer.Plan(asked.Plan) == nil:
		return proposal{}, api.Errorf(api.CodeConflict, "%s/%s is not on sale any more", asked.Offer, asked.Plan).
			Fix("put it on sale, or make an offer: bourse offer create NAME --to %s", buyers[0])
	}
	t := a.ProposalTerms
	countered := t.Price != nil || t.Units != 0 || t.Duration != nil
	t.Price, t.Units = cmp.Or(t.Price, asked.Price), cmp.Or(t.Units, asked.Units)
	t.Duration = cmp.Or(t.Duration, asked.Duration)
	spec := p.privateOffer(base.Signed.Offer, asked.Plan, t, buyers[0])
	if err := p.putOffer(ctx, id, spec); err != nil {
		return proposal{}, err
	}
	return p.recordAnswer(ctx, market.AnswerProposal{Buyer: buyers[0], ID: id, Answer: id, Countered: countered, Order: order})
}

// received is what the Ledger has of a proposal that this cluster received.
type received struct {
	buyers []string          // those that sent a proposal of this ID; the rest is of the last of them
	shown  api.KnownProposal // the proposal with its answer
	base   *market.Offer     // the offer that it is about, nil if that is not on sale
	order  string            // what led to the answer
}

// find finds a proposal that has not expired.
func (p *Proposals) find(ctx context.Context, id string) (found received, err error) {
	var kept market.Proposal
	err = p.Ledger.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if proposal := m.Proposal(id); proposal != nil && proposal.Expires > p.Ledger.Now() {
				found.buyers, kept = append(found.buyers, m.Cluster), *proposal
			}
		}
		found.order = kept.Order
		found.shown = server.ProposalOf(&kept).Payload
		found.base = s.OnSale(p.Cluster, found.shown.Proposal.Offer)
	})
	return found, err
}

// decline makes no offer, and takes back the one that answered the proposal before.
func (p *Proposals) decline(ctx context.Context, buyer, id, order, why string) (proposal, error) {
	var made api.Offer
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: id}, &made)
	if err == nil && made.Labels[api.AnswersLabel] == id {
		err = p.Client.Delete(ctx, &made)
	}
	if client.IgnoreNotFound(err) != nil {
		return proposal{}, kubeobject.Error(err)
	}
	return p.recordAnswer(ctx, market.AnswerProposal{Buyer: buyer, ID: id, Declined: true, Reason: why, Order: order})
}

func (p *Proposals) recordAnswer(ctx context.Context, answer market.AnswerProposal) (proposal, error) {
	out, err := p.Ledger.Do(ctx, answer)
	if err != nil {
		return proposal{}, err
	}
	p.Changed.Add(p.Namespace, answer.ID)
	return server.ProposalOf(out.Member.Proposal(answer.ID)), nil
}

// putOffer puts the offer on sale that answers a proposal. Errors: Invalid.
func (p *Proposals) putOffer(ctx context.Context, id string, spec api.OfferSpec) error {
	signed := &api.SignedOffer{Protocol: api.Protocol, Seller: p.Cluster, Name: id, Version: 1, Offer: spec}
	err := cmp.Or(market.ValidCluster("name", id), market.CheckOffer(signed), p.Offers.CheckAccept(spec.Accept))
	if err != nil {
		return err
	}
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: id}}
	err = kubeobject.Put(ctx, p.Client, object, func() {
		metav1.SetMetaDataLabel(&object.ObjectMeta, api.AnswersLabel, id)
		until := object.Spec.ValidUntil
		if until != nil && until.After(p.Ledger.Now().Go()) && repeats(object.Spec, spec) {
			return // with a later end it would be another offer, and the buyer could not take what it saw
		}
		object.Spec = spec
	})
	if err != nil {
		return err
	}
	p.Offers.PublishAgain(id)
	return nil
}

// repeats reports whether two offers differ at most in their ends.
func repeats(old, spec api.OfferSpec) bool {
	spec.ValidUntil = old.ValidUntil
	return equality.Semantic.DeepEqual(old, spec)
}

// privateOffer returns one plan of an offer with other terms, for one buyer, once.
func (p *Proposals) privateOffer(base api.OfferSpec, plan string, t api.ProposalTerms, buyer string) api.OfferSpec {
	sold := *base.Plan(plan)
	sold.Price = cmp.Or(t.Price, sold.Price)
	units := t.Units
	if units == 0 {
		if units = 1; sold.Units != nil {
			units = sold.Units.Min
		}
	}
	sold.Units, sold.Quantity = &api.Units{Min: units, Max: units}, units
	exactly := &metav1.Duration{Duration: api.DurationOf(t.Duration)}
	sold.MinDuration, sold.MaxDuration = exactly, exactly
	until := metav1.NewTime(p.Ledger.Now().Go().UTC().Truncate(time.Second).Add(answerStands))
	base.Draft, base.ApproveWithin, base.ValidFrom, base.ValidUntil = false, nil, nil, &until
	base.VisibleTo, base.Plans = api.Audience{Clusters: []string{buyer}}, slices.Clone([]api.Plan{sold})
	return base
}
