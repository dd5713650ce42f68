package peering

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// AsItIs leaves an earlier restriction by the policy in place.
const AsItIs = api.RevokeAction("")

// Restrict applies the policy for clusters that are not members to a consumer's Tenant that we made:
// Cordoned or Drained. RevokeNone makes it Active again if we changed it. The Tenant of a suspended
// consumer is at least Cordoned. A condition that an admin set stays.
//
// In Liqo v1.2 a Cordoned Tenant keeps its running pods and gets no new slices and pods. A Drained
// Tenant loses its rights here: Liqo deletes its ResourceSlices and NamespaceMaps, and so its
// namespaces. When the Tenant is Active again, the consumer's Liqo copies them again.
func (p *Provider) Restrict(ctx context.Context, consumer string, action api.RevokeAction, suspend bool) error {
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return err
	}
	t, err := p.tenant(ctx, namespace, consumer)
	if err != nil || t == nil || !liqo.IsOurs(t) || t.Annotations[draining] != "" {
		return err
	}
	condition, was := t.Spec.TenantCondition, t.Annotations[liqo.Restricted]
	next, mark := restrict(condition, was, action, suspend)
	if next == condition && mark == was {
		return nil
	}
	before := t.DeepCopy()
	t.Spec.TenantCondition = next
	delete(t.Annotations, liqo.Restricted)
	if mark != "" {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, liqo.Restricted, mark)
	}
	// The optimistic lock keeps a change that an admin has made since we read the Tenant.
	return client.IgnoreNotFound(p.Patch(ctx, t, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})))
}

// restrict returns the condition and the mark that a Tenant must have.
func restrict(condition authv1beta1.TenantCondition, mark string, action api.RevokeAction,
	suspend bool) (authv1beta1.TenantCondition, string) {
	if mark == liqo.Suspended && condition == authv1beta1.TenantConditionCordoned { // evaluate the policy again
		condition, mark = authv1beta1.TenantConditionActive, ""
	}
	if action != AsItIs {
		condition, mark = revoke(condition, mark, action)
	}
	if suspend && active(condition) {
		condition, mark = authv1beta1.TenantConditionCordoned, liqo.Suspended
	}
	return condition, mark
}

// revoke returns the condition and the mark by the policy alone.
func revoke(condition authv1beta1.TenantCondition, mark string,
	action api.RevokeAction) (authv1beta1.TenantCondition, string) {
	own := mark != "" && mark == string(condition)
	if !own && !active(condition) {
		return condition, "" // an admin set it
	}
	switch action {
	case api.RevokeCordon:
		return authv1beta1.TenantConditionCordoned, string(authv1beta1.TenantConditionCordoned)
	case api.RevokeDrain:
		return authv1beta1.TenantConditionDrained, string(authv1beta1.TenantConditionDrained)
	}
	if own {
		condition = authv1beta1.TenantConditionActive
	}
	return condition, ""
}

func active(c authv1beta1.TenantCondition) bool {
	return c == authv1beta1.TenantConditionActive || c == ""
}
