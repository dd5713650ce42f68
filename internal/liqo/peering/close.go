package peering

import (
	"context"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// deleteOurs deletes an object if it is there and we made it.
func deleteOurs(ctx context.Context, c client.Client, o client.Object) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || !liqo.IsOurs(o) {
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
	err := c.Get(ctx, client.ObjectKey{Name: name}, &ns)
	if err != nil || !liqo.IsOurs(&ns) || ns.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	for _, list := range []client.ObjectList{
		&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{},
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{},
		&networkingv1beta1.GatewayClientList{},
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

// Close removes the objects that Open made; done reports that none is left. It waits until Liqo has
// removed its copies at the provider, because Liqo needs the Identity for that. force does not wait,
// for a provider that is gone or has revoked our rights. Close leaves a peering that an admin made.
func (c *Consumer) Close(ctx context.Context, provider string, force bool) (done bool, err error) {
	c.openings.forget(provider)
	namespace, err := liqo.TenantNamespace(ctx, c.Client, provider)
	if err != nil || namespace == "" {
		return err == nil, err
	}
	identity, err := c.identity(ctx, namespace, provider)
	if err != nil {
		return false, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: signedNonceSecret}}
	if identity != nil && !liqo.IsOurs(identity) { // only the admin removes it
		return true, deleteOurs(ctx, c.Client, secret)
	}
	left, err := remains(ctx, c.Client, namespace, consts.ReplicationRequestedLabel)
	if err != nil || left && !force {
		return false, err
	}
	if err := deleteOurs(ctx, c.Client, secret); err != nil {
		return false, err
	}
	if identity != nil {
		return false, client.IgnoreNotFound(c.Delete(ctx, identity))
	}
	if !left {
		left, err = renewing(ctx, c.Client, namespace, consts.ReplicationRequestedLabel)
	}
	if err == nil && left && force {
		err = c.abandon(ctx, namespace, provider)
	}
	if err != nil || left {
		return false, err
	}
	if copies, err := c.remember(ctx, namespace, provider); err != nil || !copies {
		return false, err
	}
	return true, leaveNamespace(ctx, c.Client, namespace)
}

// Close removes the objects that Open made; done reports that none is left. It waits until the
// consumer's Liqo has removed its copies here. force does not wait, for a consumer that may never
// return. Close leaves a peering that an admin made as it is.
func (p *Provider) Close(ctx context.Context, consumer string, force bool) (done bool, err error) {
	p.nonces.forget(consumer)
	namespace, err := liqo.TenantNamespace(ctx, p.Client, consumer)
	if err != nil || namespace == "" {
		return err == nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nonceSecret}}
	byHand, err := p.ByHand(ctx, consumer)
	if err != nil {
		return false, err
	}
	if byHand { // only the admin removes it
		return true, deleteOurs(ctx, p.Client, secret)
	}
	left, err := remains(ctx, p.Client, namespace, consts.ReplicationStatusLabel)
	if err != nil {
		return false, err
	}
	if !left {
		left, err = p.mapped(ctx, consumer)
	}
	wait := left
	if err == nil && !left {
		wait, err = renewing(ctx, p.Client, namespace, consts.ReplicationStatusLabel)
	}
	if err != nil || wait && !force {
		return false, err
	}
	var tenants authv1beta1.TenantList
	if err := p.List(ctx, &tenants, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	gone := true
	for i := range tenants.Items {
		t := &tenants.Items[i]
		if !liqo.IsOurs(t) {
			continue
		}
		gone = false
		if left { // Liqo revokes the rights and removes the copies first; the policies stay until then
			if err := p.drain(ctx, t); err != nil {
				return false, err
			}
			continue
		}
		if t.DeletionTimestamp == nil {
			if err := p.Delete(ctx, t); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
	}
	if err := deleteOurs(ctx, p.Client, secret); err != nil || !gone {
		return false, err
	}
	return true, leaveNamespace(ctx, p.Client, namespace)
}

// mapped reports whether a namespace is left that Liqo made for a consumer. If its NamespaceMap is
// gone, Liqo never deletes the namespace, so mapped does. This occurs when Liqo loses its API server
// while it deletes.
func (p *Provider) mapped(ctx context.Context, consumer string) (left bool, err error) {
	var list corev1.NamespaceList
	if err := p.List(ctx, &list, client.MatchingLabels{consts.RemoteClusterID: consumer}); err != nil {
		return false, err
	}
	for i := range list.Items {
		ns := &list.Items[i]
		namespace, name, found := strings.Cut(ns.Annotations[consts.RemoteNamespaceManagedByAnnotationKey], "/")
		if !found {
			continue
		}
		left = true
		err := p.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &offv1beta1.NamespaceMap{})
		if apierrors.IsNotFound(err) && ns.DeletionTimestamp == nil {
			err = p.Delete(ctx, ns, client.Preconditions{UID: &ns.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
	}
	return left, nil
}

// drain makes Liqo revoke a consumer's rights and remove everything that it copied here.
func (p *Provider) drain(ctx context.Context, t *authv1beta1.Tenant) error {
	return kubeobject.Change(ctx, p.Client, t, func() {
		if t.Spec.TenantCondition != authv1beta1.TenantConditionDrained {
			t.Spec.TenantCondition = authv1beta1.TenantConditionDrained
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, draining, "true")
		}
	})
}
