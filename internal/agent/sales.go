package agent

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// Offers reads what this cluster sells.
func (h *home) Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error) {
	var list api.OfferList
	if err := h.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	out := make([]api.Envelope[api.OwnOffer], len(list.Items))
	for i := range list.Items {
		out[i] = ownOffer(&list.Items[i])
	}
	return out, nil
}

func ownOffer(o *api.Offer) api.Envelope[api.OwnOffer] {
	return api.Envelope[api.OwnOffer]{ID: o.Name, Revision: uint64(o.Generation), Payload: api.OwnOffer{Spec: o.Spec, Status: o.Status}}
}

// PutOffer writes the admin's word into the Offer of a name.
func (h *home) PutOffer(ctx context.Context, name string, spec api.OfferSpec) (api.Envelope[api.OwnOffer], error) {
	none := api.Envelope[api.OwnOffer]{}
	if err := market.ValidCluster("name", name); err != nil {
		return none, err
	}
	if err := h.sells(name, spec); err != nil {
		return none, err
	}
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
	if err := h.put(ctx, object, func() { object.Spec = spec }); err != nil {
		return none, err
	}
	return ownOffer(object), nil
}

// sells says what of an offer cannot be sold, before it is written: what a person hears at once, they need not look for.
func (h *home) sells(name string, spec api.OfferSpec) error {
	signed := &api.SignedOffer{Protocol: api.Protocol, Seller: h.cluster, Name: name, Version: 1, Offer: spec}
	if err := market.CheckOffer(signed); err != nil {
		return err
	}
	return h.gate.Engine.CheckAccept(spec.Accept)
}

// DeleteOffer deletes one.
func (h *home) DeleteOffer(ctx context.Context, name string) error {
	err := h.Delete(ctx, &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}})
	if err != nil {
		return kubeobject.Error(err)
	}
	return nil
}

// Approvals reads what waits for a person here, longest first.
func (h *home) Approvals(ctx context.Context) (out []api.Envelope[api.Approval], err error) {
	err = h.ledger.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(h.cluster, 0) {
			if r.Provider == h.cluster && r.AwaitsApproval() {
				out = append(out, approval(r))
			}
		}
	})
	slices.SortFunc(out, func(a, b api.Envelope[api.Approval]) int {
		return cmp.Or(a.Payload.Asked.Compare(b.Payload.Asked.Time), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

func approval(r *market.Reservation) api.Envelope[api.Approval] {
	a := api.Approval{Consumer: r.Consumer, Generation: r.Generation, Resources: r.Size.Resources(), Pool: r.Pool,
		Asked: r.Created.Meta(), By: r.ApproveBy.Meta(), Until: r.Until.Meta()}
	if r.Sale != nil && r.Offer != nil {
		a.Offer, a.Plan, a.Units = r.Offer.Signed.Name, r.Sale.Plan, r.Sale.Units
	}
	return api.Envelope[api.Approval]{ID: r.ID, Revision: r.Revision, Payload: a}
}

// Reclaim has the gate take a contract back.
func (h *home) Reclaim(ctx context.Context, id string) (api.Reclaimed, error) {
	at, err := h.gate.Reclaim(ctx, id)
	return api.Reclaimed{At: metav1.NewTime(at)}, err
}

// Answer hands a person's word to the gate.
func (h *home) Answer(ctx context.Context, id string, word api.Answer) error {
	if word.Approve {
		return h.gate.Approve(ctx, id, word.Generation)
	}
	return h.gate.Deny(ctx, id, word.Generation, word.Reason)
}

// Deals reads the contracts of this cluster, with what they have come to so far.
func (h *home) Deals(ctx context.Context) ([]api.Envelope[api.Deal], error) {
	var list api.ContractList
	if err := h.List(ctx, &list); err != nil {
		return nil, kubeobject.Error(err)
	}
	records := map[string]*market.Reservation{}
	err := h.ledger.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(h.cluster, 0) {
			records[r.ID] = r
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]api.Envelope[api.Deal], len(list.Items))
	for i := range list.Items {
		c := &list.Items[i]
		deal := api.Deal{Spec: c.Spec, Status: c.Status, Due: c.Status.Cost}
		if r := records[c.Name]; r != nil && contract.Is(r) && !r.State.Over() {
			deal.Due = contract.CostText(r, h.ledger.Now().Go())
		}
		deal.Used = h.used(ctx, c)
		out[i] = api.Envelope[api.Deal]{ID: c.Namespace + "/" + c.Name, Revision: uint64(c.Generation), Payload: deal}
	}
	return out, nil
}

// used is what the pods of a contract's own namespaces request, as its instruction shows it.
func (h *home) used(ctx context.Context, c *api.Contract) api.Resources {
	var status api.InstructionStatus
	if bought := (&api.ReservationInstruction{}); c.Status.Terms.Buyer == h.cluster {
		if h.Get(ctx, client.ObjectKeyFromObject(c), bought) == nil {
			status = bought.Status
		}
	} else if sold := (&api.ProviderInstruction{}); h.Get(ctx, client.ObjectKeyFromObject(c), sold) == nil {
		status = sold.Status
	}
	used := api.Resources{}
	for _, n := range status.Namespaces {
		for name, amount := range n.Used {
			if !n.Shared {
				sum := used[name]
				sum.Add(amount)
				used[name] = sum
			}
		}
	}
	return used
}
