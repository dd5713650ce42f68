package distributedcatalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/market"
)

const (
	// requests is the namespace of the ResourceRequests that a purchase makes, and how their names begin.
	requests      = "default"
	requestPrefix = "catalog-"
	// lasts is how long what the prototype buys lasts, which it cannot say: the plan may bound it,
	// and who calls may say ?for=.
	lasts = 30 * 24 * time.Hour
	// patience is how long a purchase is waited for.
	patience = 25 * time.Second
	glance   = 500 * time.Millisecond
)

// contracts are those of this cluster that are in force, as buyer and as seller. With ?ended they
// are all: the prototype's pages show each as if it were in force.
func (c *connector) contracts(_ http.ResponseWriter, r *http.Request) (any, error) {
	all := r.URL.Query().Has("ended")
	return c.documents(r.Context(), func(d *api.Deal) bool { return all || inForce(d.Status.State) })
}

// documents are the contracts that are wanted, oldest first.
func (c *connector) documents(ctx context.Context, wanted func(*api.Deal) bool) ([]ContractDocument, error) {
	all, err := c.Client.Contracts(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.documentsOf(ctx, slices.DeleteFunc(all, func(d api.Envelope[api.Deal]) bool { return !wanted(&d.Payload) }))
	slices.SortFunc(out, func(a, b ContractDocument) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ContractID, b.ContractID))
	})
	return out, err
}

// documentsOf writes contracts as the prototype does, with where their sellers sell.
func (c *connector) documentsOf(ctx context.Context, deals []api.Envelope[api.Deal]) ([]ContractDocument, error) {
	status, p, err := c.profile(ctx)
	if err != nil {
		return nil, err
	}
	out := []ContractDocument{}
	connectors := map[string]string{status.Cluster: c.URL} // the connector of each seller
	for i := range deals {
		d := &deals[i].Payload
		seller := d.Status.Terms.Seller
		if _, known := connectors[seller]; !known {
			shown, _ := c.Cluster(ctx, seller) // while no broker is reached its address is not known
			connectors[seller] = shown.Payload.Properties.Connector
		}
		out = append(out, document(d, cmp.Or(connectors[seller], status.Broker)))
		if seller == status.Cluster {
			name := &out[len(out)-1].Seller.ClusterPrettyName
			*name = cmp.Or(p.PrettyName, *name)
		}
	}
	return out, nil
}

// document writes a contract as the prototype does. The offer is the one that the seller signed.
// endpoint is where the seller sells.
func document(d *api.Deal, endpoint string) ContractDocument {
	terms := d.Status.Terms
	out := ContractDocument{ContractID: d.Spec.Reservation, BuyerID: terms.Buyer,
		PlanID: terms.Plan, Enabled: inForce(d.Status.State), Units: terms.Units,
		State: string(d.Status.State), Cost: d.Status.Cost, Offer: Offer{Plans: []Plan{}}}
	if !terms.Begins.IsZero() {
		out.Created = terms.Begins.Unix()
	}
	if !terms.Until.IsZero() {
		out.Until = terms.Until.Unix()
	}
	out.Seller = Provider{ClusterID: terms.Seller, ClusterName: terms.Seller,
		Endpoint: endpoint, ClusterContractEndpoint: endpoint}
	if signed, err := market.ReadOffer(d.Spec.Offer); err == nil {
		out.Offer = show(terms.Seller, signed.Signed.Name, &signed.Signed.Offer,
			func(p *api.Plan) int64 { return cmp.Or(p.Quantity, endless) })
		out.PlanID = planID(out.Offer.OfferID, terms.Plan, &signed.Signed.Offer)
		out.Seller.ClusterPrettyName = out.Offer.ClusterPrettyName
	}
	return out
}

func inForce(s api.State) bool { return s == api.Reserved || s == api.Active }

// buy makes a ResourceRequest for what the catalog last showed, and waits for its answer. The body
// says who sells, by the cluster's ID alone: no address in it is called.
func (c *connector) buy(w http.ResponseWriter, r *http.Request) (any, error) {
	offer, err := param(r, maxID, "offer-id")
	if err != nil {
		return nil, err
	}
	plan, err := param(r, maxID, "plan-id")
	if err != nil {
		return nil, err
	}
	var seller Provider
	if err := readBody(w, r, &seller); err != nil {
		return nil, err
	}
	status, err := c.Status(r.Context())
	if err != nil {
		return nil, err
	}
	if err := market.ValidCluster("clusterID", seller.ClusterID); err != nil {
		return nil, err
	}
	if seller.ClusterID == status.Cluster {
		return nil, api.Invalid("clusterID", "%s is this cluster", seller.ClusterID).Fix("name the cluster that sells")
	}
	purchase, lasts, err := c.purchase(r, seller.ClusterID, offer, plan)
	if err != nil {
		return nil, err
	}
	made, before, err := c.request(r.Context(), purchase, lasts)
	if err != nil {
		return nil, err
	}
	answer, err := c.await(r.Context(), made)
	if err != nil {
		return nil, err
	}
	if before && answer.State != api.Held {
		return nil, taken{answer.Reservation}
	}
	out := struct {
		ContractID2 string `json:"contractId"`
		Message     string `json:"message"`
		ContractDocument
	}{ContractID2: answer.Reservation, Message: answer.Message}
	if meta.IsStatusConditionTrue(answer.Conditions, api.ConditionAwaitsApproval) {
		terms := api.ContractTerms{Buyer: status.Cluster, Seller: seller.ClusterID, Plan: plan}
		out.ContractDocument = document(&api.Deal{Spec: api.ContractSpec{Reservation: answer.Reservation},
			Status: api.ContractStatus{State: answer.State, Terms: terms}}, "")
		return inText(out), nil
	}
	namespace, _, _ := strings.Cut(made.ID, "/")
	contract, err := c.awaitContract(r.Context(), namespace, answer.Reservation)
	out.ContractDocument = contract
	return inText(out), err
}

// taken is why no second contract is made for a plan: there is one.
type taken struct{ contract string }

func (t taken) Error() string { return t.Unwrap().Error() }

// Unwrap is the error by its code.
func (t taken) Unwrap() error {
	return api.Errorf(api.CodeConflict, "contract for this Offer Plan already exists").
		Fix("it is %s; to have more of it: bourse resize %s --units N", t.contract, t.contract)
}

// purchase is what is bought, and for how long.
func (c *connector) purchase(r *http.Request, seller, offer, plan string) (api.Purchase, time.Duration, error) {
	listed, err := c.Catalog(r.Context(), api.CatalogQuery{Seller: seller})
	if err != nil {
		return api.Purchase{}, 0, err
	}
	l := find(listed, offer)
	if l == nil || l.Seller != seller {
		return api.Purchase{}, 0, api.Errorf(api.CodeNotFound, "%s has no offer %.80q that is shown to this cluster",
			seller, offer).At("offer-id").Fix("see: GET /api/catalog")
	}
	p := planOf(offerID(l.Seller, l.Name, &l.Offer), plan, &l.Offer)
	if p == nil {
		return api.Purchase{}, 0, api.Errorf(api.CodeNotFound, "offer %.80s has no plan %.80q", offer, plan).At("plan-id").
			Fix("see: GET /api/catalog")
	}
	c.mu.Lock()
	shown := cmp.Or(c.shown[l.Seller+"/"+l.Name], l.Digest)
	c.mu.Unlock()
	if shown != l.Digest {
		return api.Purchase{}, 0, api.Errorf(api.CodeConflict, "offer %.80s has changed since it was shown",
			offer).At("offer-id").Fix("look at it again: GET /api/catalog")
	}
	d := lasts
	if text := r.URL.Query().Get("for"); text != "" {
		if d, err = time.ParseDuration(text); err != nil || d <= 0 {
			return api.Purchase{}, 0, api.Invalid("for", "%.40q is not a duration", text).Fix("write 30m, 8h or 720h")
		}
	} else {
		if p.MaxDuration != nil {
			d = min(d, p.MaxDuration.Duration)
		}
		if p.MinDuration != nil {
			d = max(d, p.MinDuration.Duration)
		}
	}
	return api.Purchase{Seller: seller, Offer: l.Name, Plan: p.Name, Digest: l.Digest}, d, nil
}

// request makes the ResourceRequest of a purchase. There is one at a time for a plan: where one
// lives, it is that one. Two calls at once make up the same name, so that one of them finds the
// other's.
func (c *connector) request(ctx context.Context, p api.Purchase,
	d time.Duration) (r client.RequestStatus, before bool, err error) {
	all, err := c.Requests(ctx)
	if err != nil {
		return r, false, err
	}
	sum := sha256.Sum256([]byte(p.Seller + "/" + p.Offer + "/" + p.Plan))
	prefix := requestPrefix + hex.EncodeToString(sum[:8]) + "-"
	last := 0
	for _, status := range all {
		number, ok := strings.CutPrefix(status.ID, requests+"/"+prefix)
		if n, err := strconv.Atoi(number); ok && err == nil {
			last = max(last, n)
			if !ended(status.Payload.Status.State) {
				return status, true, nil
			}
		}
	}
	name := fmt.Sprintf("%s%d", prefix, last+1)
	r, err = c.MakeRequest(ctx, api.RequestCreate{Namespace: requests,
		Name: name, Request: api.Request{Purchase: &p, Duration: &metav1.Duration{Duration: d}}})
	if err != nil && api.CodeOf(err) == api.CodeConflict {
		return client.RequestStatus{ID: requests + "/" + name}, true, nil // which our view of the cluster may not show yet
	}
	return r, false, err
}

func ended(s api.State) bool {
	return s == api.Rejected || s == api.Failed || s == api.Expired || s == api.Released || s == api.Releasing
}

// await waits until a request has an answer: bound, or waiting for a person who sells. Errors:
// Conflict where the answer is no; Unavailable where there is none yet.
func (c *connector) await(ctx context.Context, r client.RequestStatus) (api.ResourceRequestStatus, error) {
	namespace, name, _ := strings.Cut(r.ID, "/")
	for deadline := time.Now().Add(patience); ; {
		now, err := c.Request(ctx, namespace, name)
		if err != nil && api.CodeOf(err) != api.CodeNotFound {
			return api.ResourceRequestStatus{}, err
		}
		switch s := now.Payload.Status; {
		case inForce(s.State), s.State == api.Held && meta.IsStatusConditionTrue(s.Conditions, api.ConditionAwaitsApproval):
			return s, nil
		case ended(s.State), s.Refused():
			if s.Reservation != "" {
				_ = c.ReleaseLocally(ctx, s.Reservation, api.Release{}) // it came to nothing: the next may have its name
			}
			wrong := api.Errorf(api.CodeConflict, "it was not bought: %s", cmp.Or(s.Message, string(s.State)))
			if s.Reservation != "" {
				wrong = wrong.FixBy("see", "bourse", "why", s.Reservation)
			}
			return s, wrong
		}
		if err := pause(ctx, deadline); err != nil {
			return api.ResourceRequestStatus{}, api.Errorf(api.CodeUnavailable, "the purchase %s has no answer yet", r.ID).
				Fix("send the call again: it does not buy twice")
		}
	}
}

// awaitContract waits until the contract of a reservation is written.
func (c *connector) awaitContract(ctx context.Context, namespace, id string) (ContractDocument, error) {
	for deadline := time.Now().Add(patience); ; {
		deal, err := c.Contract(ctx, namespace, id)
		switch {
		case err == nil && inForce(deal.Payload.Status.State):
			found, err := c.documentsOf(ctx, []api.Envelope[api.Deal]{deal})
			return append(found, ContractDocument{})[0], err
		case err != nil && api.CodeOf(err) != api.CodeNotFound:
			return ContractDocument{}, err
		}
		if pause(ctx, deadline) != nil {
			return ContractDocument{}, api.Errorf(api.CodeUnavailable, "the contract is not written yet").
				Fix("see: GET /api/contracts")
		}
	}
}

func pause(ctx context.Context, deadline time.Time) error {
	if time.Now().After(deadline) {
		return context.DeadlineExceeded
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(glance):
		return nil
	}
}
