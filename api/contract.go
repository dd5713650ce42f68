package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContractSpec is what both sides signed for a reservation that was made from a plan. With it alone, and the keys of the two,
// anybody can verify what was agreed: `bourse contract verify`.
type ContractSpec struct {
	// Reservation is its ID.
	Reservation string `json:"reservation"`
	// Offer is the seller's signed offer, Assignment the buyer's signed assignment, which names the offer by its digest, and
	// Acceptance the seller's signed acceptance, which names the assignment by its digest: three documents (JWS).
	Offer      string `json:"offer"`
	Assignment string `json:"assignment"`
	Acceptance string `json:"acceptance"`
	// SellerKey and BuyerKey are the cluster keys that signed them, in base64url. Whose they are, their fingerprints say.
	SellerKey string `json:"sellerKey,omitempty"`
	BuyerKey  string `json:"buyerKey,omitempty"`
}

// ContractTerms are what a contract says, in words that people read.
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
	// Price is that of a unit, as it was when it was bought; absent: free.
	Price *Price `json:"price,omitempty"`
	// Begins and Until are when it does.
	Begins metav1.Time `json:"begins"`
	Until  metav1.Time `json:"until"`
}

// Contract is an agreement of this cluster, as buyer or as seller: in the namespace of the request that bought, or in the agent's
// where it sold. It is written by the agent alone and stays after its end, as a record; deleting it changes nothing else.
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
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.cost`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.terms.until`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Contract struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ContractSpec   `json:"spec"`
	Status            ContractStatus `json:"status,omitempty"`
}

// ContractStatus is what the documents say, and what became of it.
type ContractStatus struct {
	// Conditions: Ready says that it is in force, Breached that a side ended it otherwise than the contract lets it.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	State      State              `json:"state,omitempty"`
	Reason     Reason             `json:"reason,omitempty"`
	Terms      ContractTerms      `json:"terms,omitzero"`
	// Ended is when it began to end, if it did.
	Ended *metav1.Time `json:"ended,omitempty"`
	// Reclaimed is when the seller takes it back before its end, with the notice that the plan has.
	Reclaimed *metav1.Time `json:"reclaimed,omitempty"`
	// Cost is what it comes to from its first day to its end, or to Ended, with all that was resized on the way ("12.50 EUR").
	// Empty: it is free.
	Cost string `json:"cost,omitempty"`
}

// +kubebuilder:object:root=true

// ContractList is a list of contracts.
type ContractList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Contract `json:"items"`
}

// Deal is a contract as an agent's listener shows it; its ID is "namespace/name".
type Deal struct {
	Spec   ContractSpec   `json:"spec"`
	Status ContractStatus `json:"status"`
	// Due is what it has come to so far ("3.20 EUR"); empty: it is free.
	Due string `json:"due,omitempty"`
	// Used is what the buyer's pods request now of what was bought, where a namespace binds it to this contract.
	Used Resources `json:"used,omitempty"`
}

// Reclaimed is what became of taking a contract back.
type Reclaimed struct {
	// At is when it ends.
	At metav1.Time `json:"at"`
}

// OwnOffer is an Offer as its own agent's listener shows it; its ID is its name.
type OwnOffer struct {
	Spec   OfferSpec   `json:"spec"`
	Status OfferStatus `json:"status"`
}
