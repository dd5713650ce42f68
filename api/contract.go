package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReclaimed of a Contract: what the seller's agent did about the last annotation bourse.dev/reclaim. Reasons:
// Reclaimed; if nothing was changed: ChangedSince (it has another digest than the status), Invalid (it has no digest),
// Forbidden (the plan has no notice). Absent: there was no such annotation.
const ConditionReclaimed = "Reclaimed"

// ContractSpec holds what both sides signed for a reservation from a plan. With it and the two
// keys, anybody can verify the agreement: `bourse contract verify`.
type ContractSpec struct {
	// Reservation is its ID.
	Reservation string `json:"reservation"`
	// Offer is the seller's signed offer. Assignment is the buyer's signed assignment, which names
	// the offer's digest. Acceptance is the seller's signed acceptance, which names the
	// assignment's digest. All three are JWS.
	Offer      string `json:"offer"`
	Assignment string `json:"assignment"`
	Acceptance string `json:"acceptance"`
	// SellerKey and BuyerKey are the cluster keys that signed them, in base64url. Compare their
	// fingerprints with the admins.
	SellerKey string `json:"sellerKey,omitempty"`
	BuyerKey  string `json:"buyerKey,omitempty"`
}

// ContractTerms are the terms of a contract in a readable form.
type ContractTerms struct {
	Buyer  string `json:"buyer"`
	Seller string `json:"seller"`
	// Offer and Plan are names.
	Offer string `json:"offer"`
	Plan  string `json:"plan"`
	Units int64  `json:"units"`
	// Resources are those of all units.
	Resources Resources `json:"resources"`
	Pool      string    `json:"pool"`
	// Price is the price of one unit at the time of the purchase. Absent: free.
	Price *Price `json:"price,omitempty"`
	// Begins and Until are the beginning and the end of the contract.
	Begins metav1.Time `json:"begins"`
	Until  metav1.Time `json:"until"`
}

// Contract is an agreement of this cluster, as buyer or as seller. It is in the namespace of the
// buyer's request, or in the seller's agent namespace. Only the agent writes it. It stays after its
// end, as a record; deleting it changes nothing else.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Buyer",type=string,JSONPath=`.status.terms.buyer`
// +kubebuilder:printcolumn:name="Seller",type=string,JSONPath=`.status.terms.seller`
// +kubebuilder:printcolumn:name="Offer",type=string,JSONPath=`.status.terms.offer`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.terms.plan`
// +kubebuilder:printcolumn:name="Units",type=integer,JSONPath=`.status.terms.units`
// +kubebuilder:printcolumn:name="Due",type=string,JSONPath=`.status.due.amount`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.cost`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Contract struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ContractSpec   `json:"spec"`
	Status            ContractStatus `json:"status,omitempty"`
}

// ContractStatus is the content of the documents, and the state of the contract.
type ContractStatus struct {
	// Conditions: Ready says that the contract is in force, Breached that a side ended it in a way
	// that the contract does not allow, Reclaimed how the seller's agent answered an annotation.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	State      State              `json:"state,omitempty"`
	Reason     Reason             `json:"reason,omitempty"`
	Terms      ContractTerms      `json:"terms,omitzero"`
	// Until is when the contract ends or, if its end began before, when that was. It differs from that of
	// its terms if a side ends it early.
	Until *metav1.Time `json:"until,omitempty"`
	// Ended is when the contract began to end, if it did.
	Ended *metav1.Time `json:"ended,omitempty"`
	// Reclaimed is when the contract ends early, because the seller takes it back with the notice
	// of its plan.
	Reclaimed *metav1.Time `json:"reclaimed,omitempty"`
	// Cost is the cost from the beginning to the end, or to Ended, with all resizes ("12.50 EUR").
	// Empty: it is free.
	Cost string `json:"cost,omitempty"`
	// Due is what of the cost is due already. The agent writes it at most hourly, and at the end. Absent: it is free.
	Due *Due `json:"due,omitempty"`
	// Digest stands for this object and the generation of its reservation. The annotation bourse.dev/reclaim names it,
	// so that it takes back nothing else. Absent: this cluster cannot take it back, or has.
	Digest string `json:"digest,omitempty"`
	// Answered are the values of annotations that were answered, by the name of the annotation after "bourse.dev/":
	// reclaim. The agent acts on no value twice.
	// +kubebuilder:validation:MaxProperties=8
	Answered map[string]string `json:"answered,omitempty"`
}

// Due is what a contract costs from its beginning to a time.
type Due struct {
	// Amount is that cost, with all resizes ("3.20 EUR").
	Amount string `json:"amount"`
	// At is the time: that of the agent when it wrote this, or the end of the contract.
	At metav1.Time `json:"at"`
}

// Deal is a contract as an agent's listener shows it; its ID is "namespace/name".
type Deal struct {
	Spec   ContractSpec   `json:"spec"`
	Status ContractStatus `json:"status"`
	// Due is the cost so far ("3.20 EUR"). Empty: it is free.
	Due string `json:"due,omitempty"`
	// Used is what the pods of its namespaces use of it now. Absent: not known, or nothing.
	Used Resources `json:"used,omitempty"`
}

// Reclaimed is the answer to taking a contract back.
type Reclaimed struct {
	// At is when the contract ends.
	At metav1.Time `json:"at"`
}

// OwnOffer is an Offer as its own agent's listener shows it; its ID is its name.
type OwnOffer struct {
	Spec   OfferSpec   `json:"spec"`
	Status OfferStatus `json:"status"`
}
