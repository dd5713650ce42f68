package explain

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// ContractReason says why a contract is not in force any more, and whether that breaks it.
func ContractReason(s api.ContractStatus) string {
	if meta.IsStatusConditionTrue(s.Conditions, api.ConditionBreached) {
		return breach(s.Reason)
	}
	return string(s.Reason)
}

// Plan returns the path of the plan of a contract: SELLER/OFFER/PLAN.
func Plan(t api.ContractTerms) string { return t.Seller + "/" + t.Offer + "/" + t.Plan }

// OnSale says whether an offer is on sale: "yes", "no (Draft)"; empty: the agent has not looked at it.
func OnSale(o api.OwnOffer) string {
	c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return "yes"
	}
	return "no (" + c.Reason + ")"
}

// Answer says in one word how the seller answered a proposal.
func Answer(p api.KnownProposal) string {
	switch {
	case p.Declined:
		return "declined"
	case p.Answer == "":
		return "waits"
	case p.Countered:
		return "countered"
	}
	return "accepted"
}
