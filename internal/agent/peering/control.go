package peering

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// workers is how many peerings are brought forward at a time.
const workers = 8

// Control starts the controller. It looks at a peering when any of Liqo's objects changes that it is about.
func (p *Peerings) Control(m ctrl.Manager) error {
	request := func(peer string, role api.PeeringRole) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.options.Namespace,
			Name: api.PeeringName(peer, role)}}
	}
	of := func(roles ...api.PeeringRole) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (out []reconcile.Request) {
			peer := liqo.Peer(o)
			if peer == "" {
				return nil
			}
			for _, role := range roles {
				out = append(out, request(peer, role))
			}
			return out
		})
	}
	// of those in which this cluster borrows
	borrows := func(ctx context.Context, o client.Object) (out []reconcile.Request) {
		if _, ok := o.(*corev1.Namespace); ok && liqo.Peer(o) == "" {
			return nil
		}
		var list api.PeeringList
		_ = p.options.Client.List(ctx, &list, client.InNamespace(p.options.Namespace))
		for _, object := range list.Items {
			if object.Spec.Role == api.RoleProvider {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&object)})
			}
		}
		return out
	}
	borrowing := handler.EnqueueRequestsFromMapFunc(borrows)
	named := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{request(o.GetName(), api.RoleConsumer), request(o.GetName(), api.RoleProvider)}
	})
	both := of(api.RoleProvider, api.RoleConsumer)
	return ctrl.NewControllerManagedBy(m).Named("peering").For(&api.Peering{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		WatchesRawSource(p.options.Trigger).
		Watches(&api.Peer{}, named).
		Watches(liqo.Tenant(), of(api.RoleConsumer)).
		Watches(liqo.Identity(), of(api.RoleProvider)).
		Watches(liqo.ResourceSlice(), both).
		Watches(liqo.VirtualNode(), of(api.RoleProvider)).
		Watches(liqo.Offloading(), borrowing).Watches(&api.SharingPolicy{}, borrowing).
		Watches(&corev1.Namespace{}, borrowing).
		Watches(&corev1.Node{}, of(api.RoleProvider)).
		Watches(liqo.Configuration(), both).
		Watches(liqo.GatewayServer(), both).
		Watches(liqo.GatewayClient(), both).
		Watches(liqo.PublicKey(), both).
		Watches(liqo.Connection(), both).
		Complete(p)
}
