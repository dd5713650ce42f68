// Package instruction holds the common parts of ReservationInstruction and ProviderInstruction, the
// objects of a reservation in the consumer's and the provider's cluster.
package instruction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
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

// Show writes the status of an instruction if it changed. before returns a copy of the object.
func Show(ctx context.Context, c client.Client, object client.Object, status *api.InstructionStatus, generation int64, r *market.Reservation, before func() client.Object) error {
	next := status.DeepCopy()
	next.State, next.Reason = r.State, r.Reason
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: string(r.State), ObservedGeneration: generation}
	if r.State == api.Reserved || r.State == api.Active {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&next.Conditions, ready)
	awaits := metav1.Condition{Type: api.ConditionAwaitsApproval, Status: metav1.ConditionFalse, Reason: string(r.State), ObservedGeneration: generation}
	if r.AwaitsApproval() {
		awaits.Status, awaits.Message = metav1.ConditionTrue, fmt.Sprintf("%s waits until %s for: bourse approve %s, or bourse refuse %s", r.Consumer, r.ApproveBy.Go().Format(time.RFC3339), r.ID, r.ID)
	}
	if awaits.Message != "" || meta.FindStatusCondition(next.Conditions, awaits.Type) != nil {
		meta.SetStatusCondition(&next.Conditions, awaits)
	}
	if equality.Semantic.DeepEqual(*status, *next) {
		return nil
	}
	old := before()
	*status = *next
	return c.Status().Patch(ctx, object, client.MergeFrom(old))
}
