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

// replicator is the finalizer by which Liqo keeps an original until its copy is gone.
const replicator = "crdreplicator.liqo.io/resource"

// abandon lets originals go that are being deleted and whose copies nobody will ever confirm to be gone.
func (c *Consumer) abandon(ctx context.Context, namespace, provider string) error {
	if forgotten, err := c.forget(ctx, namespace, provider); err != nil || !forgotten {
		return err
	}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.NamespaceMapList{}, &authv1beta1.RenewList{}} {
		err := liqo.Change(ctx, c.Client, list, func(o client.Object) bool {
			return o.GetDeletionTimestamp() != nil && controllerutil.RemoveFinalizer(o, replicator)
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

// forget has our Liqo forget what it remembers of its copies at a provider; done says that it has. By itself it keeps the kubeconfig
// by which it copies, and with it the tenant namespace, until it has seen the last copy go, which it never does where the provider
// took its rights before that. Another kubeconfig for the same cluster has it drop what it had by the first (Liqo v1.2,
// internal/crdReplicator: Controller.Reconcile), and by this one, which is empty, it begins nothing. So the agent needs no right to
// Liqo's own.
func (c *Consumer) forget(ctx context.Context, namespace, provider string) (done bool, err error) {
	secret := forgetting(namespace, provider)
	if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	return err == nil && len(secret.Finalizers) > 0, err // Liqo puts one there before it does so
}

// remember takes forget back; done says that it is: by the kubeconfig of another Identity Liqo would copy again.
func (c *Consumer) remember(ctx context.Context, namespace, provider string) (done bool, err error) {
	secret := forgetting(namespace, provider)
	err = deleteOurs(ctx, c.Client, secret)
	return err == nil && secret.UID == "", err // what was there Liqo lets go of, and it is looked again
}
