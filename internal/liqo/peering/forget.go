package peering

import (
	"context"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// replicator is the finalizer with which Liqo keeps an original until its copy is gone.
const replicator = "crdreplicator.liqo.io/resource"

// abandon removes Liqo's finalizer from deleted originals whose copies cannot be confirmed gone.
func (c *Consumer) abandon(ctx context.Context, namespace, provider string) error {
	if forgotten, err := c.forget(ctx, namespace, provider); err != nil || !forgotten {
		return err
	}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{},
		&offv1beta1.NamespaceMapList{}, &authv1beta1.RenewList{}} {
		err := liqo.Change(ctx, c.Client, list, func(o client.Object) {
			if o.GetDeletionTimestamp() != nil {
				controllerutil.RemoveFinalizer(o, replicator)
			}
		}, client.InNamespace(namespace), client.MatchingLabels{consts.ReplicationRequestedLabel: "true"})
		if err != nil {
			return err
		}
	}
	return nil
}

const forgetSecret = "bourse-forget"

func forgetting(namespace, provider string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: forgetSecret,
		Labels:      liqo.Labels(provider, consts.IdentityTypeLabelKey, string(authv1beta1.ControlPlaneIdentityType)),
		Annotations: map[string]string{consts.RemoteTenantNamespaceAnnotKey: ""},
	}}
}

// forget makes our Liqo drop its state about copies at a provider; done reports that it has.
//
// By itself, Liqo keeps the kubeconfig with which it copies, and so the tenant namespace, until it
// sees the last copy go. If the provider has revoked its rights before, it never sees that. A second
// kubeconfig Secret for the same cluster makes Liqo drop the state of the first (Liqo v1.2,
// internal/crdReplicator: Controller.Reconcile). Ours is empty, so Liqo starts no new copies. The
// agent therefore needs no permissions on Liqo's own Secrets.
func (c *Consumer) forget(ctx context.Context, namespace, provider string) (done bool, err error) {
	secret := forgetting(namespace, provider)
	if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	return err == nil && len(secret.Finalizers) > 0, err // Liqo adds a finalizer first
}

// remember reverts forget, so that Liqo copies again with the kubeconfig of a new Identity; done
// reports that the Secret is gone.
func (c *Consumer) remember(ctx context.Context, namespace, provider string) (done bool, err error) {
	secret := forgetting(namespace, provider)
	err = deleteOurs(ctx, c.Client, secret)
	return err == nil && secret.UID == "", err // if it existed, Liqo removes its finalizer; look again
}
