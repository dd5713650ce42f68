// Package contract presents a reservation that was made from a plan: as a Contract object, with its
// cost, and as three signed documents that anyone who knows the keys of both clusters can verify.
//
// It has no state: everything in a contract follows from the reservation's record.
package contract

import (
	"math/big"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Is reports whether a reservation is a contract: made from a plan and signed by both.
func Is(r *market.Reservation) bool {
	return r.Sale != nil && r.Offer != nil && r.Assignment != "" && r.Acceptance != ""
}

// Spec returns the documents of a contract.
func Spec(r *market.Reservation) api.ContractSpec {
	return api.ContractSpec{Reservation: r.ID, Offer: r.Offer.Document, Assignment: r.Assignment, Acceptance: r.Acceptance}
}

// Terms returns the terms of a contract.
func Terms(r *market.Reservation) api.ContractTerms {
	plan := r.Offer.Plan(r.Sale.Plan)
	return api.ContractTerms{
		Buyer: r.Consumer, Seller: r.Provider, Offer: r.Offer.Signed.Name, Plan: plan.Name, Units: r.Sale.Units,
		Resources: r.Size.Resources(), Pool: r.Pool, Price: plan.Plan.Price, Begins: begun(r).Meta(), Until: r.Until.Meta(),
	}
}

// begun returns the time from which the first unit costs.
func begun(r *market.Reservation) market.Time {
	if len(r.Past) > 0 {
		return r.Past[0].From
	}
	return r.From
}

// Cost returns the cost of a contract up to a time: each period of it by its units, at the price of the
// day on which they were bought. An ended contract costs nothing more.
func Cost(r *market.Reservation, at time.Time) *big.Rat {
	end := min(r.LastsUntil(), market.At(at))
	price := r.Offer.Plan(r.Sale.Plan).Price
	all := append(r.Past[:len(r.Past):len(r.Past)], market.Stretch{From: r.From, Units: r.Sale.Units})
	sum := new(big.Rat)
	for i, s := range all {
		until := end
		if i+1 < len(all) {
			until = min(end, all[i+1].From)
		}
		sum.Add(sum, price.Between(s.Units, begun(r).Go(), s.From.Go(), until.Go()))
	}
	return sum
}

// CostText formats the cost for users; empty if it is free.
func CostText(r *market.Reservation, at time.Time) string {
	price := r.Offer.Plan(r.Sale.Plan).Price
	if price.Free() {
		return ""
	}
	return money.Text(Cost(r, at), price.Currency) + " " + price.Currency
}

// Verify checks the documents of a contract from end to end and returns its terms. It uses only the
// contract itself: only the fingerprints can show that its two keys are the seller's and the buyer's.
// A seller that rotated its key between offer and sale signed with two keys: then the offer is not
// proven. Errors: BadSignature, Invalid.
func Verify(c api.ContractSpec) (api.ContractTerms, error) {
	seller, err := clusterkey.ParsePublicKey(c.SellerKey)
	if err != nil {
		return api.ContractTerms{}, wrong("sellerKey", err)
	}
	buyer, err := clusterkey.ParsePublicKey(c.BuyerKey)
	if err != nil {
		return api.ContractTerms{}, wrong("buyerKey", err)
	}
	offer, err := trust.Offer(c.Offer, seller)
	if err != nil {
		return api.ContractTerms{}, wrong("offer", err)
	}
	var a api.Assignment
	if err := clusterkey.Verify(c.Assignment, api.DocumentAssignment, buyer, &a); err != nil {
		return api.ContractTerms{}, wrong("assignment", err)
	}
	var yes api.Acceptance
	if err := clusterkey.Verify(c.Acceptance, api.DocumentAcceptance, seller, &yes); err != nil {
		return api.ContractTerms{}, wrong("acceptance", err)
	}
	for _, demand := range []struct {
		holds bool
		what  string
	}{
		{a.Sale != nil, "the assignment is from no plan"},
		{a.Sale == nil || a.Sale.Offer == offer.Digest, "the assignment names another offer"},
		{a.Provider == offer.Signed.Seller, "the assignment is for another seller"},
		{a.ProviderKey == seller.Fingerprint().String() && a.ConsumerKey == buyer.Fingerprint().String(),
			"the assignment names other keys"},
		{a.Reservation == c.Reservation && yes.Reservation == c.Reservation, "the documents are of another reservation"},
		{yes.Assignment == clusterkey.Digest(c.Assignment).String(), "the acceptance is of another assignment"},
		{yes.Consumer == a.Consumer && yes.Provider == a.Provider && yes.Generation == a.Generation,
			"the acceptance is of other parties"},
	} {
		if !demand.holds {
			return api.ContractTerms{}, api.Errorf(api.CodeBadSignature, "%s", demand.what)
		}
	}
	size, err := amounts.ParseRequest("assignment.resources", a.Resources)
	if err != nil {
		return api.ContractTerms{}, err
	}
	if err := offer.Covers(*a.Sale, a.Pool, size); err != nil {
		return api.ContractTerms{}, err
	}
	plan := offer.Plan(a.Sale.Plan)
	return api.ContractTerms{
		Buyer: a.Consumer, Seller: a.Provider, Offer: offer.Signed.Name, Plan: plan.Name, Units: a.Sale.Units,
		Resources: a.Resources, Pool: a.Pool, Price: plan.Plan.Price, Begins: a.Begins, Until: a.Until,
	}, nil
}

func wrong(document string, err error) error {
	return api.Errorf(api.CodeBadSignature, "%s", err).At(document).
		Fix("check the fingerprint of who signed it: ask its admin")
}

// Notice returns how long before its end the seller may take a contract back; 0 if it may not.
func Notice(d api.Deal) time.Duration {
	offer, err := market.ReadOffer(d.Spec.Offer)
	if err != nil {
		return 0
	}
	plan := offer.Plan(d.Status.Terms.Plan)
	if plan == nil || plan.Plan.Notice == nil {
		return 0
	}
	return plan.Plan.Notice.Duration
}
