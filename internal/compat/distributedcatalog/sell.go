package distributedcatalog

import (
	"net/http"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// sell is the seller's yes to what a buyer has signed and what waits for it. What was sold already
// is shown again. Nothing is sold that no buyer has signed: the call does not say who makes it, and
// a contract binds two.
func (c *connector) sell(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in [3]string
	for i, name := range []string{"buyer-id", "offer-id", "plan-id"} {
		var err error
		if in[i], err = param(r, maxID, name); err != nil {
			return nil, err
		}
	}
	buyer := in[0]
	if err := market.ValidCluster("buyer-id", buyer); err != nil {
		return nil, err
	}
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	offer, err := c.ownOffer(r.Context(), status.Cluster, in[1])
	if err != nil {
		return nil, err
	}
	plan := planOf(in[1], in[2], &offer.Payload.Spec)
	if plan == nil {
		return nil, api.Errorf(api.CodeNotFound, "offer %.80s has no plan %.80q", in[1], in[2]).At("plan-id").
			Fix("see: GET /api/offers")
	}
	sold := func(d *api.Deal) bool {
		t := d.Status.Terms
		return t.Seller == status.Cluster && t.Buyer == buyer && t.Offer == offer.ID && t.Plan == plan.Name
	}
	waiting, err := c.Approvals(r.Context())
	if err != nil {
		return nil, err
	}
	for _, a := range waiting {
		if p := a.Payload; p.Consumer == buyer && p.Offer == offer.ID && p.Plan == plan.Name {
			if err := c.Answer(r.Context(), a, api.Answer{Approve: true}); err != nil {
				return nil, err
			}
			return c.awaitContract(r.Context(), c.AgentNamespace(r.Context()), a.ID)
		}
	}
	have, err := c.documents(r.Context(), func(d *api.Deal) bool { return inForce(d.Status.State) && sold(d) })
	if err != nil {
		return nil, err
	}
	if len(have) == 0 {
		return nil, api.Errorf(api.CodeConflict,
			"%s has signed no purchase of plan %s that waits for this cluster", buyer, in[2]).
			Fix("the buyer buys at its own agent: POST /api/contracts/buy there, or bourse buy %s/%s/%s",
				status.Cluster, offer.ID, plan.Name)
	}
	return have[len(have)-1], nil
}

// revoke ends a contract: what was bought is released, what was sold taken back with the notice
// that its plan has.
func (c *connector) revoke(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := param(r, maxID, "id")
	if err != nil {
		return nil, err
	}
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	deals, err := c.Client.Contracts(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range deals {
		d := &deals[i].Payload
		switch {
		case d.Spec.Reservation != id:
		case !inForce(d.Status.State):
			return withMessage("Contract is over"), nil
		case d.Status.Terms.Buyer == status.Cluster:
			return withMessage("Contract ended"), c.ReleaseLocally(r.Context(), id, api.Release{})
		default:
			reclaimed, err := c.Reclaim(r.Context(), deals[i])
			return withMessage("Contract ends at " + reclaimed.At.UTC().Format(time.RFC3339)), err
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no contract %.80q", id).At("id").Fix("see: GET /api/contracts")
}
