// Package instruction shows reservations in Kubernetes: what a ReservationInstruction of a consumer and a
// ProviderInstruction of a provider have in common. [Spec] and [Show] make one of a record in the Ledger. A
// [Part] is what one of several writers says in its status.
package instruction

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Spec returns the instruction of a record.
func Spec(r *market.Reservation) api.Instruction {
	i := api.Instruction{
		Reservation: r.ID, Generation: r.Generation, Consumer: r.Consumer, Provider: r.Provider,
		Pool: r.Pool, Slice: r.Slice(), Resources: r.Size.Resources(), Until: r.EndsAt().Meta(),
	}
	if r.Assignment != "" {
		i.Assignment = clusterkey.Digest(r.Assignment).String()
	}
	if r.Acceptance != "" {
		i.Acceptance = clusterkey.Digest(r.Acceptance).String()
	}
	return i
}

// The acts by which an admin answers a ProviderInstruction that waits for approval. The text of a refusal is for the
// consumer.
var (
	Approve = act.Act{Name: "approve", Done: "Approved", Kind: "providerinstruction", Shows: ".status.approval"}
	Refuse  = act.Act{Name: "refuse", Done: "Refused", Kind: "providerinstruction", Shows: ".status.approval",
		TakesText: true}
)

// ApprovalDigest returns the digest that an answer to a ProviderInstruction names.
func ApprovalDigest(o client.Object, r *market.Reservation) string {
	return act.Digest(string(o.GetUID()), strconv.FormatInt(r.Generation, 10), clusterkey.Digest(r.Assignment).String())
}

// pendingApproval returns what an admin decides about.
func pendingApproval(o client.Object, r *market.Reservation) *api.PendingApproval {
	asked := r.Created.Go().Truncate(time.Second) // as it is stored: else it differs each time
	a := &api.PendingApproval{Digest: ApprovalDigest(o, r), Asked: metav1.NewTime(asked), By: r.ApproveBy.Meta()}
	if plan := r.Bought(); plan != nil {
		a.Offer, a.Plan, a.Units, a.Price = r.Offer.Signed.Name, r.Sale.Plan, r.Sale.Units, plan.Price.Text()
	}
	return a
}

// reservation is the part that says how far a reservation is.
var reservation = Part{
	Manager: "bourse-agent", State: true, Conditions: []string{api.ConditionReady, api.ConditionAwaitsApproval},
}

// Show writes into the status of an instruction how far its reservation is, if it changed. Once the reservation
// is over, it clears the parts that say how it was carried out: nothing of them is true any more. status is
// that of object; afterwards it has one part alone. Errors: the API server's.
func Show(ctx context.Context, c client.Client, object client.Object, status *api.InstructionStatus,
	r *market.Reservation) error {
	read, next := *status.DeepCopy(), api.InstructionStatus{State: r.State, Reason: r.Reason}
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: string(r.State)}
	if r.State == api.Reserved || r.State == api.Active {
		ready.Status = metav1.ConditionTrue
	}
	if r.State.Over() {
		ready.Message = "the reservation is over, and nothing of it is carried out any more"
	}
	next.Conditions = append(next.Conditions, ready)
	awaits := metav1.Condition{Type: api.ConditionAwaitsApproval, Status: metav1.ConditionFalse, Reason: string(r.State)}
	if r.AwaitsApproval() {
		awaits.Status = metav1.ConditionTrue
		awaits.Message = fmt.Sprintf("%s waits until %s for: bourse approve %s, or bourse refuse %s", r.Consumer,
			r.ApproveBy.Go().Format(time.RFC3339), r.ID, r.ID)
		if r.Object == nil { // it is the provider's
			next.Approval = pendingApproval(object, r)
			awaits.Message += fmt.Sprintf("; with kubectl: %s, or %s", Approve.Command(object, next.Approval.Digest),
				Refuse.Command(object, next.Approval.Digest+" REASON"))
		}
	}
	if awaits.Message != "" || meta.FindStatusCondition(status.Conditions, awaits.Type) != nil {
		next.Conditions = append(next.Conditions, awaits)
	}
	if err := reservation.Write(ctx, c, object, status, next); err != nil || !r.State.Over() {
		return err
	}
	return clearCarriedOut(ctx, c, object, status, read)
}
