package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnswersLabel on an Offer names the proposal that it answers. The agent deletes such an Offer after it was bought,
// and after the end of its time.
const AnswersLabel = Group + "/answers-proposal"

// ProposalTerms are other terms for a plan. A field that is absent is as in the plan or, in an answer, as in the
// proposal.
//
// +kubebuilder:object:generate=false
type ProposalTerms struct {
	// Price is that of one unit.
	Price *Price `json:"price,omitempty"`
	// Units is how many units of the plan. Default: the smallest number that it sells.
	Units int64 `json:"units,omitempty" minimum:"0" maximum:"1000000"`
	// Duration is how long. Default 24 h.
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Message is free text for the other side: at most 256 characters.
	Message string `json:"message,omitempty" maxLength:"256"`
}

// Proposal is a buyer's signed wish for other terms of a plan. It binds nobody. The seller answers with an
// offer that only this buyer sees, named like the proposal's ID.
//
// +kubebuilder:object:generate=false
type Proposal struct {
	Protocol int    `json:"protocol"`
	Buyer    string `json:"buyer"`
	Seller   string `json:"seller"`
	// Offer and Plan are names.
	Offer string `json:"offer"`
	Plan  string `json:"plan"`
	ProposalTerms
	// Expires is when the seller forgets it: at most a week after Issued.
	Issued  metav1.Time `json:"issued"`
	Expires metav1.Time `json:"expires"`
}
