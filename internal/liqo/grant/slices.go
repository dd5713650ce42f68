package grant

import (
	"context"
	"crypto/sha256"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Slices returns slices for [Granter.Reconcile], by default those of all consumers and providers.
func Slices(ctx context.Context, r client.Reader, of ...client.ListOption) ([]ctrl.Request, error) {
	var all []ctrl.Request
	var list authv1beta1.ResourceSliceList
	err := r.List(ctx, &list, of...)
	for i := range list.Items {
		all = append(all, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all, err
}

// ReadGrant returns the grant in a slice's status; nil if there is no such slice. covers says that pods that have
// ended may take a part of it: see [Ended].
func ReadGrant(ctx context.Context, r client.Reader, consumer, name string) (granted api.Resources, covers bool,
	err error) {
	namespace, err := liqo.TenantNamespace(ctx, r, consumer)
	if err != nil || namespace == "" {
		return nil, false, err
	}
	var slice authv1beta1.ResourceSlice
	if err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &slice); err != nil {
		return nil, false, client.IgnoreNotFound(err)
	}
	return api.Resources(slice.Status.Resources), keepsSize(&slice), nil
}

// User returns the user name of a slice's virtual kubelet in the provider's cluster, as Liqo forms it.
// Liqo labels the objects of that virtual kubelet with it.
func User(slice, consumer string) string {
	sum := sha256.Sum256([]byte(consumer))
	return fmt.Sprintf("%s-%x", slice, sum[:6])
}
