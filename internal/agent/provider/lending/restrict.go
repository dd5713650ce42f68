package lending

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Restrict does to a consumer what the SharingPolicy says about one in this state (onRevoke), and
// what the admin says about this one. It takes back what no longer applies.
func (l *Lending) Restrict(ctx context.Context, consumer string, state api.MemberState) error {
	suspension, err := l.options.Suspension(ctx, consumer)
	if err != nil {
		return err
	}
	action := onRevoke(l.options.Sharing(), state)
	return l.peering.Restrict(ctx, consumer, action, suspension.Status == metav1.ConditionTrue)
}

// Suspension returns the condition Suspended of a consumer.
func (l *Lending) Suspension(ctx context.Context, consumer string) (*metav1.Condition, error) {
	s, err := l.options.Suspension(ctx, consumer)
	return &s, err
}

// Effect says in words what Restrict does to a consumer in this state. It is empty if existing
// reservations stay.
func (l *Lending) Effect(state api.MemberState) string {
	switch onRevoke(l.options.Sharing(), state) {
	case peering.AsItIs:
		return "with no SharingPolicy in force its Tenant is left as it is"
	case api.RevokeCordon:
		return "Liqo's Tenant is cordoned, as the SharingPolicy says (onRevoke): running pods stay, and no new pods come"
	case api.RevokeDrain:
		return "as the SharingPolicy says (onRevoke) Liqo's Tenant is drained: its pods and namespaces here end"
	}
	return ""
}

// onRevoke returns what the policy says to do about a consumer in this state. Without a policy or
// without a state, that is not known, and everything stays as it is.
func onRevoke(policy *api.Sharing, state api.MemberState) api.RevokeAction {
	switch {
	case state == api.MemberActive:
		return api.RevokeNone
	case policy == nil:
		return peering.AsItIs
	case policy.OnRevoke == "" || policy.OnRevoke == api.RevokeNone:
		return api.RevokeNone
	case state == "":
		return peering.AsItIs
	case state == api.MemberSuspended:
		return api.RevokeCordon
	}
	return policy.OnRevoke
}
