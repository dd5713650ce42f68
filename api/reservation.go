package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// State is where a reservation is in its life:
//
//	         ┌─────────────┐ refused: next best
//	         ▼             │
//	request ─▶ Held ── accepted ──▶ Reserved ─▶ Active ─▶ Releasing ─▶ Released
//	   │        └──▶ Failed, Expired                        ▲
//	   ├──▶ Rejected                        (Held, signed) ─┘
//	   └──▶ Pending ─▶ Held, Rejected
//
// Held, Reserved, Active and Releasing all take capacity. Only a request that says that it waits is
// ever Pending.
type State string

const (
	Pending   State = "Pending"   // no cluster can serve it now, and it waits for one
	Held      State = "Held"      // in the broker's books, not yet accepted by the provider
	Reserved  State = "Reserved"  // accepted durably; both sides are bound and instructed
	Active    State = "Active"    // granted, and the consumer's virtual node is Ready
	Releasing State = "Releasing" // ending; still counted until the provider says it is free
	Released  State = "Released"  // over
	Rejected  State = "Rejected"  // no cluster could serve it
	Failed    State = "Failed"    // every provider refused, or it was cancelled before it was bound
	Expired   State = "Expired"   // not confirmed, or not accepted, in time
)

// States are all states, in the order of a life.
var States = []State{Pending, Held, Reserved, Active, Releasing, Released, Rejected, Failed, Expired}

// Counts says whether a reservation in this state takes capacity.
func (s State) Counts() bool {
	return s == Held || s == Reserved || s == Active || s == Releasing
}

// Over says that nothing follows this state.
func (s State) Over() bool { return !s.Counts() && s != Pending }

// Reason says why a reservation is in its state, or why a provider refused. The list is closed.
type Reason string

const (
	ReasonNoCandidate       Reason = "NoCandidate" // no cluster passes every filter
	ReasonReleased          Reason = "ReleasedByConsumer"
	ReasonCancelled         Reason = "CancelledByConsumer" // before the provider was bound
	ReasonEnded             Reason = "EndReached"          // its time is over
	ReasonRevokedByProvider Reason = "RevokedByProvider"
	ReasonReclaimed         Reason = "ReclaimedByProvider" // with the notice that its plan has
	ReasonNotConfirmed      Reason = "NotConfirmed"        // the hold ended before the consumer signed
	ReasonNotAccepted       Reason = "NotAccepted"         // no provider accepted before the deadline
	ReasonAcceptanceDropped Reason = "AcceptanceDropped"   // accepted, but the commit never reached the provider
	ReasonInsufficient      Reason = "Insufficient"        // refusal: does not fit the provider's own books
	ReasonPolicy            Reason = "PolicyRefuses"       // refusal: the SharingPolicy does not allow it
	ReasonNothingShared     Reason = "NothingShared"       // refusal: no SharingPolicy
	ReasonKeyChanged        Reason = "KeyChanged"          // refusal: another key than the pinned one
	ReasonBadAssignment     Reason = "BadAssignment"       // refusal: the assignment is not valid for this provider
	ReasonLedgerFull        Reason = "LedgerFull"          // refusal: the provider cannot record it
	ReasonSuspended         Reason = "SuspendedByProvider" // refusal: the provider's admin suspended the consumer
	ReasonNoAnswer          Reason = "NoAnswer"            // the provider did not answer in time
	// its key was not confirmed, which the other's SharingPolicy demands
	ReasonKeyUnconfirmed Reason = "KeyUnconfirmed"
	ReasonUnreachable    Reason = "ApiServerUnreachable" // refusal by the consumer: the API server that the card names
	// refusal by the consumer: the network that was asked for cannot be made with it
	ReasonNoNetwork Reason = "NoNetwork"
	// refusal by the consumer: its virtual nodes with the provider are not as the request needs them
	ReasonInUse Reason = "InUse"
	// refusal by the consumer: the provider would have more of its namespaces than the card allows
	ReasonNamespacesFull Reason = "NamespacesFull"
	// refusal: nobody at the provider approved it, or somebody said no
	ReasonNotApproved   Reason = "NotApproved"
	ReasonPartFailed    Reason = "PartFailed"    // another part of the same request was not accepted
	ReasonMemberRemoved Reason = "MemberRemoved" // an operator closed the books of a member that is gone
	// refusal of a change by the broker: the consumer would exceed its cap. No provider refuses with it.
	ReasonCapReached Reason = "CapReached"
)

// EndedByOthers reports whether somebody else than the consumer ended a bound reservation before its time.
func (r Reason) EndedByOthers() bool {
	return r == ReasonRevokedByProvider || r == ReasonReclaimed || r == ReasonMemberRemoved
}

// Reservation is an assignment with a life. Consumer and provider see the same one. Request,
// Decision and Tried are empty for the provider.
type Reservation struct {
	State   State  `json:"state"`
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Consumer string `json:"consumer"`
	Provider string `json:"provider,omitempty"`
	Pool     string `json:"pool,omitempty"`
	// Slice is the name of the account's ResourceSlice, hence of its virtual node.
	Slice     string    `json:"slice,omitempty"`
	Resources Resources `json:"resources"`
	// Generation is that of the assignment in force, or of the one that both sides are about to sign.
	Generation int64 `json:"generation"`

	Created metav1.Time `json:"created"`
	// HeldUntil is when the hold ends, Deadline when the time to reach Reserved is over, Until when
	// the reservation ends. For a Pending reservation, Until counts from the request.
	HeldUntil metav1.Time `json:"heldUntil,omitzero"`
	Deadline  metav1.Time `json:"deadline,omitzero"`
	Until     metav1.Time `json:"until,omitzero"`
	// ApproveBy is the deadline for an admin's approval at the provider: the consumer signs it as
	// the assignment's Expires. Empty: no approval is needed, and HeldUntil is the deadline.
	ApproveBy metav1.Time `json:"approveBy,omitzero"`
	// Waiting is the place in the queue of a reservation that waits or has waited. The provider
	// does not see it.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Change is the requested change of size or end, or the last one that was refused.
	Change *Change `json:"change,omitempty"`

	// Group are the IDs of all parts of a split request, including this one. Only its consumer sees them.
	Group []string `json:"group,omitempty"`

	// Object is the ResourceRequest that made it, as NAMESPACE/NAME, also after that is deleted. Only the consumer's own
	// agent shows it.
	Object string `json:"object,omitempty"`

	Request  *Request  `json:"request,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
	Tried    []Tried   `json:"tried,omitempty"`

	// Sale is the plan of the purchase, Offer the seller's signed offer (JWS) with that plan.
	// Empty: no purchase.
	Sale  *Sale  `json:"sale,omitempty"`
	Offer string `json:"offer,omitempty"`

	// Fence orders instructions: an agent ignores this one if it has seen a higher fence.
	Fence Fence `json:"fence"`
	// ConsumerCard and ProviderCard are the signed cards of the two, as the broker knows them.
	ConsumerCard string `json:"consumerCard,omitempty"`
	ProviderCard string `json:"providerCard,omitempty"`
	// Assignment, Acceptance and End are the signed documents so far (JWS).
	Assignment string `json:"assignment,omitempty"`
	Acceptance string `json:"acceptance,omitempty"`
	End        string `json:"end,omitempty"`
	// Reclaim is the seller's signed statement (JWS) that it takes the contract back early.
	Reclaim string `json:"reclaim,omitempty"`
}

// Waiting says how a reservation waits for capacity, or has waited.
type Waiting struct {
	// Position is its place among all waiting requests of the broker, from 1 on. It is 0 in a
	// watch, and once the reservation no longer waits.
	Position int `json:"position,omitempty"`
	// Since is the time of the request. Among equal priorities, the oldest is served first.
	Since metav1.Time `json:"since"`
	// Until is when it stops waiting. It is then Rejected.
	Until    metav1.Time `json:"until"`
	Priority int32       `json:"priority,omitempty"`
}

// Change is another size or end of a bound reservation: a newer assignment that its consumer signed.
type Change struct {
	Generation int64       `json:"generation"`
	Resources  Resources   `json:"resources"`
	Until      metav1.Time `json:"until,omitzero"`
	// HeldUntil is the deadline for the provider's answer.
	HeldUntil metav1.Time `json:"heldUntil,omitzero"`
	// Assignment is the signed document (JWS).
	Assignment string `json:"assignment,omitempty"`
	// Reason and Message say why the provider refused. They are empty while the answer is pending.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Expires returns the deadline for the provider's answer, which the consumer signs.
func (r *Reservation) Expires() metav1.Time {
	if r.ApproveBy.IsZero() {
		return r.HeldUntil
	}
	return r.ApproveBy
}

// Pending reports whether a change waits for its answer.
func (c *Change) Pending() bool { return c != nil && c.Reason == "" }

// Tried is a provider that was asked and did not accept.
type Tried struct {
	Provider string `json:"provider"`
	Reason   Reason `json:"reason"`
	Message  string `json:"message,omitempty"`
}

// Fence is the order of instructions: the broker's lineage, and the revision within it.
type Fence struct {
	Lineage  string `json:"lineage"`
	Revision uint64 `json:"revision"`
}

// Before reports whether o is newer than f. Fences of two lineages have no order.
func (f Fence) Before(o Fence) bool { return f.Lineage == o.Lineage && f.Revision < o.Revision }

// ReservationCreate is the body that creates a reservation.
type ReservationCreate struct {
	Request Request `json:"request"`
}

// Agreement holds what both parties signed for a bound reservation, and the offer if it is a
// purchase. Either party shows it to a broker that does not know the reservation.
type Agreement struct {
	Assignment string `json:"assignment" maxLength:"98304"`
	Acceptance string `json:"acceptance" maxLength:"98304"`
	Offer      string `json:"offer,omitempty" maxLength:"98304"`
	// Vouch is the caller's [Vouch], if one of its former keys signed its document.
	Vouch string `json:"vouch,omitempty" maxLength:"4096"`
}

// SignedDocument is the body of confirm, accept and release: one JWS.
type SignedDocument struct {
	Document string `json:"document" maxLength:"98304"`
}

// Refusal is a no: a provider's to an assignment, or a consumer's to a provider that it does not
// trust or reach. Advertisement, if set, is a new one on which the broker bases its next decision.
type Refusal struct {
	Generation    int64        `json:"generation"`
	Reason        Reason       `json:"reason"`
	Message       string       `json:"message,omitempty" maxLength:"1024"`
	Advertisement *Measurement `json:"advertisement,omitempty"`
}

// Progress is an agent's report about a reservation. A consumer reports that its virtual node is
// Ready (Active), a provider that nothing of it is left (Released).
type Progress struct {
	State State `json:"state" enum:"Active,Released"`
}
