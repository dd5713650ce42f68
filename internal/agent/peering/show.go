package peering

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

// show writes the status of a peering, if it changed, and announces what is new of the other cluster.
func (p *Peerings) show(ctx context.Context, object *api.Peering, next api.PeeringStatus, byHand bool) error {
	peer, role := object.Spec.Cluster, object.Spec.Role
	next.Since = object.Status.Since
	if next.Conditions == nil {
		next.Conditions = object.Status.DeepCopy().Conditions
	}
	if next.State != object.Status.State || next.Since == nil {
		now := metav1.NewTime(p.options.Clock.Now())
		next.Since = &now
	}
	ready := metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: string(next.State),
		Message: next.Message, ObservedGeneration: object.Generation,
	}
	if next.State == api.PeeringOpen {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&next.Conditions, ready)
	if byHand {
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: api.ConditionMixedPeering, Status: metav1.ConditionTrue, Reason: "MadeByHand",
			ObservedGeneration: object.Generation,
			Message:            "this peering was made by hand: it is used and never written",
		})
	} else {
		meta.RemoveStatusCondition(&next.Conditions, api.ConditionMixedPeering)
	}
	effect := ""
	if role == api.RoleConsumer && !byHand {
		effect = p.options.Lending.Effect(p.options.Peers.State(peer, next.Conditions))
	}
	announce := p.options.Peers.ShowMember(&next.Conditions, peer, effect, object.Generation)
	suspension, err := p.side(role).Suspension(ctx, peer)
	if err != nil {
		return err
	}
	announceSuspension := p.options.Peers.ShowSuspension(&next.Conditions, suspension, object.Generation)
	if equality.Semantic.DeepEqual(object.Status, next) {
		return nil
	}
	object.Status = next
	if err := kubeobject.SoleStatus(p.options.Client).Apply(ctx, object); err != nil {
		return err
	}
	announce(object)
	announceSuspension(object)
	return nil
}

// withNetwork returns the conditions of a peering with how far its network is. Nil: no reservation
// asks for one.
func withNetwork(object *api.Peering, s *network.Standing) []metav1.Condition {
	conditions := object.Status.DeepCopy().Conditions
	if s == nil {
		meta.RemoveStatusCondition(&conditions, api.ConditionNetworkReady)
		return conditions
	}
	c := metav1.Condition{
		Type: api.ConditionNetworkReady, Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message,
		ObservedGeneration: object.Generation,
	}
	if s.Ready {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&conditions, c)
	return conditions
}
