package peering

import (
	"context"

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
	opened := next.State == api.PeeringOpen
	setCondition(&next.Conditions, object, api.ConditionReady, opened, string(next.State), next.Message)
	if byHand {
		setCondition(&next.Conditions, object, api.ConditionMixedPeering, true, "MadeByHand",
			"this peering was made by hand: it is used and never written")
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
	if !kubeobject.Differs(object.Status, &next) {
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
func withNetwork(object *api.Peering, s *network.State) []metav1.Condition {
	conditions := object.Status.DeepCopy().Conditions
	if s == nil {
		meta.RemoveStatusCondition(&conditions, api.ConditionNetworkReady)
		return conditions
	}
	setCondition(&conditions, object, api.ConditionNetworkReady, s.Ready, s.Reason, s.Message)
	return conditions
}

// setCondition sets a condition of a peering to True or False.
func setCondition(conditions *[]metav1.Condition, object *api.Peering,
	kind string, holds bool, reason, message string) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: object.Generation}
	if holds {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, c)
}
