package localapi

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

// Offers returns what this cluster sells.
func (c *Cluster) Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error) {
	var list api.OfferList
	err := c.o.Client.List(ctx, &list, client.InNamespace(c.o.Namespace))
	return api.Envelopes(list.Items, (*api.Offer).Envelope), kubeobject.Error(err)
}

// PutOffer creates an Offer, or changes it. It publishes one again that a broker took off sale.
// Errors: Invalid.
func (c *Cluster) PutOffer(ctx context.Context, name string,
	spec api.OfferSpec) (out api.Envelope[api.OwnOffer], err error) {
	if err := market.ValidCluster("name", name); err != nil {
		return out, err
	}
	if err := c.checkOffer(name, spec); err != nil {
		return out, err
	}
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: c.o.Namespace, Name: name}}
	err = kubeobject.Put(ctx, c.o.Client, object, func() {
		delete(object.Labels, api.AnswersLabel) // what an admin changes by hand stays
		object.Spec = spec
	})
	if err != nil {
		return out, err
	}
	c.o.Gate.PublishAgain(name)
	return object.Envelope(), nil
}

// checkOffer reports what is wrong with an offer before it is written, so that the caller need not look for
// the condition of the object. Errors: Invalid with the field.
func (c *Cluster) checkOffer(name string, spec api.OfferSpec) error {
	signed := &api.SignedOffer{Protocol: api.Protocol, Seller: c.o.Cluster, Name: name, Version: 1, Offer: spec}
	if err := market.CheckOffer(signed); err != nil {
		return err
	}
	return c.o.Gate.CheckAccept(spec.Accept)
}

// DeleteOffer deletes one.
func (c *Cluster) DeleteOffer(ctx context.Context, name string) error {
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: c.o.Namespace, Name: name}}
	return kubeobject.Error(c.o.Client.Delete(ctx, object))
}

// Approvals returns the reservations that wait for approval here, the longest waiting first.
func (c *Cluster) Approvals(ctx context.Context) (out []api.Envelope[api.Approval], err error) {
	lent, err := readLedger(ctx, c.o.Ledger.Lent)
	for _, r := range lent {
		if r.AwaitsApproval() {
			out = append(out, approvalEnvelope(r))
		}
	}
	slices.SortFunc(out, func(a, b api.Envelope[api.Approval]) int {
		return cmp.Or(a.Payload.Asked.Compare(b.Payload.Asked.Time), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

func approvalEnvelope(r *market.Reservation) api.Envelope[api.Approval] {
	a := api.Approval{Consumer: r.Consumer, Generation: r.Generation, Resources: r.Size.Resources(), Pool: r.Pool,
		Asked: r.Created.Meta(), By: r.ApproveBy.Meta(), Until: r.Until.Meta()}
	if r.Sale != nil && r.Offer != nil {
		a.Offer, a.Plan, a.Units = r.Offer.Signed.Name, r.Sale.Plan, r.Sale.Units
	}
	return api.Envelope[api.Approval]{ID: r.ID, Revision: r.Revision, Payload: a}
}

// Reclaim takes back what a contract sold, with its notice.
func (c *Cluster) Reclaim(ctx context.Context, id string) (api.Reclaimed, error) {
	at, err := c.o.Gate.Reclaim(ctx, id)
	return api.Reclaimed{At: metav1.NewTime(at)}, err
}

// Answer approves or denies a reservation that waits for approval.
func (c *Cluster) Answer(ctx context.Context, id string, word api.Answer) error {
	if word.Approve {
		return c.o.Gate.Approve(ctx, id, word.Generation)
	}
	return c.o.Gate.Deny(ctx, id, word.Generation, word.Reason)
}

// Deals returns the contracts of this cluster, with what each has cost so far.
func (c *Cluster) Deals(ctx context.Context) ([]api.Envelope[api.Deal], error) {
	var list api.ContractList
	if err := c.o.Client.List(ctx, &list); err != nil {
		return nil, kubeobject.Error(err)
	}
	all, err := readLedger(ctx, c.o.Ledger.Reservations)
	if err != nil {
		return nil, err
	}
	records := map[string]*market.Reservation{}
	for _, r := range all {
		records[r.ID] = r
	}
	out := make([]api.Envelope[api.Deal], len(list.Items))
	for i := range list.Items {
		o, r := &list.Items[i], records[list.Items[i].Name]
		sold := r != nil && contract.Is(r)
		if sold && o.Status.State == "" { // its status is written after it
			contract.SetStatus(&o.Status, r, o.Generation)
		}
		deal := api.Deal{Spec: o.Spec, Status: o.Status, Due: o.Status.Cost}
		if sold && !r.State.Over() {
			deal.Due = contract.CostText(r, c.o.Ledger.Now().Go())
		}
		deal.Used = c.usedBy(ctx, o)
		out[i] = api.Envelope[api.Deal]{ID: o.Namespace + "/" + o.Name, Revision: uint64(o.Generation), Payload: deal}
	}
	return out, nil
}

// usedBy returns what the pods of a contract's namespaces use of it, as its instruction shows it; nil: not known.
func (c *Cluster) usedBy(ctx context.Context, o *api.Contract) api.Resources {
	var status api.InstructionStatus
	if bought := (&api.ReservationInstruction{}); o.Status.Terms.Buyer == c.o.Cluster {
		if c.o.Client.Get(ctx, client.ObjectKeyFromObject(o), bought) == nil {
			status = bought.Status
		}
	} else if sold := (&api.ProviderInstruction{}); c.o.Client.Get(ctx, client.ObjectKeyFromObject(o), sold) == nil {
		status = sold.Status
	}
	return status.Used
}
