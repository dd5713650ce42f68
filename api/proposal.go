package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnswersLabel on an Offer names the proposal that it answers. The agent deletes such an Offer after it was bought,
// and after the end of its time.
const AnswersLabel = Group + "/answers-proposal"

// ProposalTerms are other terms for a plan. A field that is absent is as in the plan or, in an answer, as in the
// proposal.
type ProposalTerms struct {
	// Price is that of one unit.
	// +optional
	Price *Price `json:"price,omitempty"`
	// Units is how many units of the plan. Default: the smallest number that it sells.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Units int64 `json:"units,omitempty" minimum:"0" maximum:"1000000"`
	// Duration is how long. Default 24 h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Message is free text for the other side: at most 256 characters.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty" maxLength:"256"`
}

// SignedProposal is a buyer's signed wish for other terms of a plan. It binds nobody. The seller answers with an
// offer that only this buyer sees, named like the proposal's ID.
//
// +kubebuilder:object:generate=false
type SignedProposal struct {
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

// ConditionSent of a Proposal that this cluster makes: its seller has it. Reasons: Sent; if not: Signed (it is sent next),
// Expired, or the code of the error.
const ConditionSent = "Sent"

// ProposalSpec says what is proposed to whom. The agent signs it and sends it to the connector of the seller.
//
// +kubebuilder:validation:XValidation:rule="self.seller == oldSelf.seller && self.offer == oldSelf.offer && self.plan == oldSelf.plan && has(self.buyer) == has(oldSelf.buyer) && (!has(self.buyer) || self.buyer == oldSelf.buyer) && has(self.price) == has(oldSelf.price) && (!has(self.price) || self.price == oldSelf.price) && has(self.units) == has(oldSelf.units) && (!has(self.units) || self.units == oldSelf.units) && has(self.duration) == has(oldSelf.duration) && (!has(self.duration) || self.duration == oldSelf.duration) && has(self.message) == has(oldSelf.message) && (!has(self.message) || self.message == oldSelf.message) && has(self.within) == has(oldSelf.within) && (!has(self.within) || self.within == oldSelf.within)",message="a proposal can only be answered, not changed: delete it and make another"
// +kubebuilder:validation:XValidation:rule="!has(self.answer) || has(self.buyer)",message="the seller answers this proposal, not its buyer"
type ProposalSpec struct {
	// Seller is the provider. Offer and Plan are names.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Seller string `json:"seller"`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Offer string `json:"offer"`
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Plan          string `json:"plan"`
	ProposalTerms `json:",inline"`
	// Within is for how long the proposal stands: one minute to a week. Default 72 h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}([.][0-9]+)?h)?([0-9]{1,7}([.][0-9]+)?m)?([0-9]{1,9}([.][0-9]+)?s)?([0-9]{1,9}ms)?$`
	// +optional
	Within *metav1.Duration `json:"within,omitempty"`
	// Buyer is the cluster that sent the proposal to this one: the agent sets it. Absent: this cluster is the buyer.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Buyer string `json:"buyer,omitempty"`
	// Answer is what an admin of the seller says to a proposal that this cluster received. It can be changed until the
	// proposal expires.
	// +optional
	Answer *ProposalReply `json:"answer,omitempty"`
}

// ProposalReply answers a proposal.
//
// +kubebuilder:validation:XValidation:rule="self.decision == 'Counter' ? has(self.price) || has(self.units) || has(self.duration) : !(has(self.price) || has(self.units) || has(self.duration))",message="Counter names other terms: price, units or duration; Accept and Decline name none"
type ProposalReply struct {
	Decision ProposalDecision `json:"decision"`
	// The terms of a counter-offer: what is absent is as proposed. Message is for the buyer of a proposal that is declined.
	ProposalTerms `json:",inline"`
}

// ProposalDecision is what a seller does about a proposal.
//
// +kubebuilder:validation:Enum=Accept;Counter;Decline
type ProposalDecision string

const (
	// ProposalAccept puts an offer with the proposed terms on sale, which only the buyer sees.
	ProposalAccept ProposalDecision = "Accept"
	// ProposalCounter does so with other terms.
	ProposalCounter ProposalDecision = "Counter"
	// ProposalDecline makes no offer, and takes back the one that was made.
	ProposalDecline ProposalDecision = "Decline"
)

// Proposal proposes other terms for a plan to its seller. It is in the namespace of the buyer's user or, at the
// seller, in the agent's namespace. It binds nobody. The agent deletes it a week after it has expired, and at the seller
// once it has expired.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=bourse
// +kubebuilder:printcolumn:name="Buyer",type=string,JSONPath=`.spec.buyer`
// +kubebuilder:printcolumn:name="Seller",type=string,JSONPath=`.spec.seller`
// +kubebuilder:printcolumn:name="Offer",type=string,JSONPath=`.spec.offer`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.spec.plan`
// +kubebuilder:printcolumn:name="Price",type=string,JSONPath=`.spec.price.amount`
// +kubebuilder:printcolumn:name="Sent",type=string,JSONPath=`.status.conditions[?(@.type=="Sent")].reason`
// +kubebuilder:printcolumn:name="Answer",type=string,JSONPath=`.status.conditions[?(@.type=="Answered")].reason`
// +kubebuilder:printcolumn:name="On sale as",type=string,JSONPath=`.status.offer`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expires`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Proposal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ProposalSpec   `json:"spec"`
	Status            ProposalStatus `json:"status,omitempty"`
}

// ProposalStatus says how far a proposal is.
type ProposalStatus struct {
	// Conditions: Sent says whether the seller has the proposal of this cluster, Answered what the answer is.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ID is that of the proposal at both sides. Digest is that of what the buyer signed ("SHA256:...").
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Issued is when the buyer signed it. At Expires the seller forgets it.
	Issued  *metav1.Time `json:"issued,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
	// Offer is the name of the offer that answers it: only the buyer sees it. Buy SELLER/OFFER/PLAN. Absent: there is none.
	Offer string `json:"offer,omitempty"`
	// Reason is why the seller declined, as it says.
	Reason string `json:"reason,omitempty"`
}
