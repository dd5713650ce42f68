package peers

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// existingStay is the effect that a member's state has by default.
const existingStay = "existing reservations stay"

// RecordState takes in what the broker says of a member. It ignores a repetition, and a state that no member
// can have.
func (p *Peers) RecordState(s api.Membership) {
	switch s.State {
	case api.MemberPending, api.MemberActive, api.MemberSuspended, api.MemberRevoked, api.MemberRemoved:
	default:
		return
	}
	p.mu.Lock()
	before, known := p.states[s.Cluster]
	if !known && len(p.states) >= maxClusters {
		clear(p.states)
	}
	p.states[s.Cluster] = s.State
	p.mu.Unlock()
	if before != s.State {
		p.options.Trigger.Add(p.options.Namespace, s.Cluster)
		p.options.StateChanged(s.Cluster, api.RoleProvider)
		p.options.StateChanged(s.Cluster, api.RoleConsumer)
	}
}

// State returns what the broker last said of a member: since the agent started, or else as the conditions of
// an object about it still show. It is empty if the broker said nothing.
func (p *Peers) State(cluster string, conditions []metav1.Condition) api.MemberState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := p.states[cluster]; state != "" {
		return state
	}
	if c := meta.FindStatusCondition(conditions, api.ConditionMember); c != nil {
		return api.MemberState(c.Reason)
	}
	return ""
}

// ShowMember writes a member's state into the conditions of an object about it. effect is what this cluster
// does if the state is not active; empty: existing reservations stay. It returns a function that announces a
// new state in an Event. Call it once the conditions are stored.
func (p *Peers) ShowMember(conditions *[]metav1.Condition, cluster, effect string,
	generation int64) (announce func(about runtime.Object)) {
	state := p.State(cluster, *conditions)
	if state == "" {
		return func(runtime.Object) {}
	}
	c := metav1.Condition{Type: api.ConditionMember, Status: metav1.ConditionTrue, Reason: string(state),
		ObservedGeneration: generation,
		Message:            "the broker says that " + cluster + " is a member"}
	kind := corev1.EventTypeNormal
	if state != api.MemberActive {
		kind, c.Status = corev1.EventTypeWarning, metav1.ConditionFalse
		c.Message = fmt.Sprintf("the broker's operator has %s: nothing new is agreed with it, and %s; this is the "+
			"broker's word alone",
			operatorAction(cluster, state), cmp.Or(effect, existingStay))
	}
	before := meta.FindStatusCondition(*conditions, c.Type)
	isNew := before == nil && state != api.MemberActive || before != nil && before.Reason != c.Reason
	meta.SetStatusCondition(conditions, c)
	return func(about runtime.Object) {
		if isNew {
			p.options.Events.Eventf(about, nil, kind, "Member"+c.Reason, "Follow", "%s", c.Message)
		}
	}
}

// operatorAction says what an operator did to bring a member into a state.
func operatorAction(cluster string, state api.MemberState) string {
	switch state {
	case api.MemberSuspended:
		return "suspended " + cluster + " for a while"
	case api.MemberRevoked:
		return "revoked " + cluster + " for good"
	case api.MemberPending:
		return "not approved yet that " + cluster + " joins again"
	default:
		return "removed " + cluster
	}
}

// suspendReason returns why a Peer suspends its cluster; empty: it does not.
func suspendReason(spec *api.PeerSpec) string {
	if !spec.Suspend {
		return ""
	}
	return cmp.Or(spec.SuspendReason, "no reason was given")
}

// suspensionOf returns the condition Suspended of a consumer. It is False where the admin has not
// suspended it.
func suspensionOf(spec *api.PeerSpec, consumer string) metav1.Condition {
	c := metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionFalse, Reason: "NotSuspended"}
	if reason := suspendReason(spec); reason != "" {
		c.Status, c.Reason = metav1.ConditionTrue, grant.ReasonSuspended
		c.Message = fmt.Sprintf("the provider's admin has suspended %s: %s; running pods stay, and nothing more is lent",
			consumer, reason)
	}
	return c
}

// Suspension returns the condition Suspended of a consumer, as the admin's Peer says. It is False where the
// admin has not suspended it. Errors: the API server's.
func (p *Peers) Suspension(ctx context.Context, consumer string) (metav1.Condition, error) {
	var object api.Peer
	err := p.options.Client.Get(ctx, client.ObjectKey{Namespace: p.options.Namespace, Name: consumer}, &object)
	return suspensionOf(&object.Spec, consumer), client.IgnoreNotFound(err)
}

// ShowSuspension writes a suspension into the conditions of an object about a cluster: now is True, False, or
// nil where it is not known. A suspension that is over is removed. It returns a function that announces a
// change in an Event. Call it once the conditions are stored.
func (p *Peers) ShowSuspension(conditions *[]metav1.Condition, now *metav1.Condition,
	generation int64) (announce func(about runtime.Object)) {
	before := meta.FindStatusCondition(*conditions, api.ConditionSuspended)
	over := now != nil && now.Status != metav1.ConditionTrue
	switch {
	case now == nil || over && before == nil:
		return func(runtime.Object) {}
	case over:
		meta.RemoveStatusCondition(conditions, api.ConditionSuspended)
		return func(about runtime.Object) {
			p.options.Events.Eventf(about, nil, corev1.EventTypeNormal, "Resumed", "Suspend", "the suspension is over")
		}
	}
	c := *now
	c.ObservedGeneration = generation
	isNew := before == nil || before.Reason != c.Reason || before.Message != c.Message
	meta.SetStatusCondition(conditions, c)
	return func(about runtime.Object) {
		if isNew {
			p.options.Events.Eventf(about, nil, corev1.EventTypeWarning, c.Reason, "Suspend", "%s", c.Message)
		}
	}
}
