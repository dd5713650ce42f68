package peering

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// deleteOurs deletes an object if it is there and we made it.
func deleteOurs(ctx context.Context, c client.Client, o client.Object) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || !liqo.Ours(o) {
		return client.IgnoreNotFound(err)
	}
	uid := o.GetUID()
	return client.IgnoreNotFound(c.Delete(ctx, o, client.Preconditions{UID: &uid}))
}

// remains reports whether a tenant namespace still holds objects that Liqo copies. The label selects
// the originals or the copies.
func remains(ctx context.Context, c client.Client, namespace, label string) (bool, error) {
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.NamespaceMapList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{label: "true"}); err != nil {
			return false, err
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// renewing reports whether a tenant namespace still holds Renew objects, with which Liqo renews
// certificates. The label selects the originals or the copies. Liqo removes them after the Identity.
// If the provider revoked the rights before the copy is gone, the original would stay forever.
func renewing(ctx context.Context, c client.Client, namespace, label string) (bool, error) {
	var list authv1beta1.RenewList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{label: "true"})
	return len(list.Items) > 0, err
}

// leaveNamespace deletes a tenant namespace that we made, once nothing uses it: it serves both
// directions, and peerings that admins made.
func leaveNamespace(ctx context.Context, c client.Client, name string) error {
	var ns corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil || !liqo.Ours(&ns) || ns.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	for _, list := range []client.ObjectList{
		&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{},
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{},
	} {
		if err := c.List(ctx, list, client.InNamespace(name)); err != nil {
			return err
		}
		if meta.LenList(list) > 0 {
			return nil
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, &ns))
}
