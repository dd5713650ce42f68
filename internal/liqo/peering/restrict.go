package peering

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// restricted marks a Tenant that we cordoned or drained by the policy, with the condition that we gave it: to be told from what an admin did.
const restricted = api.Group + "/restricted"

// suspended is the mark of a Tenant that we cordoned because an admin suspended the consumer.
const suspended = "Suspended"

// AsItIs leaves what the policy once did to a Tenant as it is.
const AsItIs = api.RevokeAction("")

// Restrict makes the Tenant of a consumer, if we made it, what the policy says of a cluster that is no member: Cordoned or
// Drained; by RevokeNone it is Active again where it was we who changed it. Of a consumer that is suspended it is Cordoned at
// least. What an admin made it, it stays.
//
// In Liqo v1.2 a Cordoned Tenant keeps what runs, and gets no new slices and pods. A Drained one loses its rights here, and Liqo deletes
// its ResourceSlices and NamespaceMaps, and with them its namespaces. When it is Active again, the consumer's Liqo copies them anew.
func (p *Provider) Restrict(ctx context.Context, consumer string, action api.RevokeAction, suspend bool) error {
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return err
	}
	t, err := p.tenant(ctx, namespace, consumer)
	if err != nil || t == nil || !liqo.Ours(t) || t.Annotations[draining] != "" {
		return err
	}
	is, was := t.Spec.TenantCondition, t.Annotations[restricted]
	next, mark := restrict(is, was, action, suspend)
	if next == is && mark == was {
		return nil
	}
	before := t.DeepCopy()
	t.Spec.TenantCondition = next
	delete(t.Annotations, restricted)
	if mark != "" {
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, restricted, mark)
	}
	// Under the version that was read: an admin may have had a word meanwhile.
	return client.IgnoreNotFound(p.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// restrict is the condition and the mark that a Tenant is to have.
func restrict(is authv1beta1.TenantCondition, mark string, action api.RevokeAction, suspend bool) (authv1beta1.TenantCondition, string) {
	if mark == suspended && is == authv1beta1.TenantConditionCordoned { // what the policy says is found out anew
		is, mark = authv1beta1.TenantConditionActive, ""
	}
	if action != AsItIs {
		is, mark = revoke(is, mark, action)
	}
	if suspend && active(is) {
		is, mark = authv1beta1.TenantConditionCordoned, suspended
	}
	return is, mark
}

// revoke is what the policy says.
func revoke(is authv1beta1.TenantCondition, mark string, action api.RevokeAction) (authv1beta1.TenantCondition, string) {
	ours := mark != "" && mark == string(is)
	if !ours && !active(is) {
		return is, "" // an admin's word
	}
	switch action {
	case api.RevokeCordon:
		return authv1beta1.TenantConditionCordoned, string(authv1beta1.TenantConditionCordoned)
	case api.RevokeDrain:
		return authv1beta1.TenantConditionDrained, string(authv1beta1.TenantConditionDrained)
	}
	if ours {
		is = authv1beta1.TenantConditionActive
	}
	return is, ""
}

func active(c authv1beta1.TenantCondition) bool {
	return c == authv1beta1.TenantConditionActive || c == ""
}
