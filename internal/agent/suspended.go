package agent

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/trust"
)

// onRevoke is what the policy says to do about a consumer of this standing, in this cluster's terms; not known where there is nothing to
// go by, so that everything stays as it is.
func onRevoke(policy *api.Sharing, state api.MemberState) (action api.RevokeAction, known bool) {
	switch {
	case state == api.MemberActive:
		return api.RevokeNone, true
	case policy == nil:
		return api.RevokeNone, false
	case policy.OnRevoke == "" || policy.OnRevoke == api.RevokeNone:
		return api.RevokeNone, true
	case state == "":
		return api.RevokeNone, false
	case state == api.MemberSuspended:
		return api.RevokeCordon, true
	}
	return policy.OnRevoke, true
}

// effectOf is what comes of an action.
func effectOf(action api.RevokeAction) string {
	switch action {
	case api.RevokeCordon:
		return "Liqo's Tenant is cordoned, as the SharingPolicy says (onRevoke): running pods stay, and no new pods come"
	case api.RevokeDrain:
		return "as the SharingPolicy says (onRevoke) Liqo's Tenant is drained: what it has here ends"
	}
	return ""
}

// suspension is what the provider's slices show; not known before they were looked at.
func (b *borrow) suspension(_ context.Context, provider string) (*metav1.Condition, error) {
	if s, known := b.suspended[provider]; known {
		return &s, nil
	}
	return nil, nil
}

// showSuspension notes what a slice shows, and puts it on the instructions of its loans.
func (b *borrow) showSuspension(ctx context.Context, provider string, loans []loan, slice offload.Standing) {
	s := metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionFalse, Reason: slice.Held, Message: trust.Text(slice.Why)}
	if slice.Held != "" {
		s.Status = metav1.ConditionTrue
	}
	b.suspended[provider] = s
	for _, l := range loans {
		if l.Object == nil {
			continue
		}
		var i api.ReservationInstruction
		if b.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.ID}, &i) != nil {
			continue // it is a picture: the next look draws it
		}
		before := i.DeepCopy()
		if s.ObservedGeneration = i.Generation; s.Status == metav1.ConditionTrue {
			meta.SetStatusCondition(&i.Status.Conditions, s)
		} else {
			meta.RemoveStatusCondition(&i.Status.Conditions, api.ConditionSuspended)
		}
		if !equality.Semantic.DeepEqual(before.Status, i.Status) {
			_ = b.Status().Patch(ctx, &i, client.MergeFrom(before))
		}
	}
}
