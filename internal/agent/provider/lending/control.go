package lending

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
)

// mapTo makes an event handler of a function that returns what to look at.
var mapTo = handler.EnqueueRequestsFromMapFunc

// Control starts the controllers that guard namespaces and grant slices.
func (l *Lending) Control(m ctrl.Manager) error {
	if err := l.controlGuards(m); err != nil {
		return err
	}
	if err := l.controlPlain(m); err != nil {
		return err
	}
	return l.controlGrants(m)
}

// mapped returns the namespaces that Liqo made for consumers.
func (l *Lending) mapped(ctx context.Context, of ...client.ListOption) (out []reconcile.Request) {
	var list corev1.NamespaceList
	if err := l.options.Client.List(ctx, &list, of...); err != nil {
		return nil
	}
	for _, ns := range list.Items {
		if guard.Mapped(&ns) {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: ns.Name}})
		}
	}
	return out
}

// controlGuards looks at a namespace when it changes, or what guards it, and at all of them when
// the policy does.
func (l *Lending) controlGuards(m ctrl.Manager) error {
	all := mapTo(func(ctx context.Context, _ client.Object) []reconcile.Request { return l.mapped(ctx) })
	ofConsumer := mapTo(func(ctx context.Context, o client.Object) []reconcile.Request {
		return l.mapped(ctx, liqo.Of(o.(*api.ProviderInstruction).Spec.Consumer))
	})
	// The namespaces of a consumer share its grant: what one of them uses, the others cannot.
	beside := mapTo(func(ctx context.Context, o client.Object) []reconcile.Request {
		var ns corev1.Namespace
		if !liqo.IsOurs(o) || l.options.Client.Get(ctx, client.ObjectKey{Name: o.GetNamespace()}, &ns) != nil ||
			liqo.Peer(&ns) == "" {
			return nil
		}
		return l.mapped(ctx, liqo.Of(liqo.Peer(&ns)))
	})
	return ctrl.NewControllerManagedBy(m).Named("guard").For(&corev1.Namespace{}).
		Watches(&api.SharingPolicy{}, all).Watches(liqo.Tenant(), all).Watches(liqo.Configuration(), all).
		Watches(&api.ProviderInstruction{}, ofConsumer).
		Watches(&corev1.ResourceQuota{}, beside).
		Watches(&corev1.LimitRange{}, beside).Watches(&networkingv1.NetworkPolicy{}, beside).
		Complete(&guard.Guard{
			Client: l.options.Client, Reader: l.options.Reader, Sharing: l.options.Sharing, Storage: l.storage,
			Granted: l.granted, Plain: l.guards,
		})
}

// controlGrants looks at a slice when it or its Tenant changes. It looks at all slices of a consumer when its
// reservations change, or the admin suspends or resumes it.
func (l *Lending) controlGrants(m ctrl.Manager) error {
	c := l.options.Client
	of := func(consumer func(client.Object) string) handler.EventHandler {
		return mapTo(func(ctx context.Context, o client.Object) []reconcile.Request {
			namespace, err := liqo.TenantNamespace(ctx, c, consumer(o))
			if err != nil || namespace == "" {
				return nil
			}
			slices, _ := grant.Slices(ctx, c, client.InNamespace(namespace))
			return slices
		})
	}
	return ctrl.NewControllerManagedBy(m).Named("grant").For(liqo.ResourceSlice()).
		Watches(liqo.Tenant(), of(liqo.Peer)).
		Watches(&api.Peer{}, of(client.Object.GetName)).
		Watches(&api.ProviderInstruction{}, mapTo(func(ctx context.Context, o client.Object) []reconcile.Request {
			i := o.(*api.ProviderInstruction)
			namespace, err := liqo.TenantNamespace(ctx, c, i.Spec.Consumer)
			if err != nil || namespace == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: i.Spec.Slice}}}
		})).
		Watches(&api.SharingPolicy{}, mapTo(func(ctx context.Context, _ client.Object) []reconcile.Request {
			slices, _ := grant.Slices(ctx, c)
			return slices
		})).
		WatchesRawSource(&l.options.Usage.Grants).
		Complete(&grant.Granter{
			Client: c, Reader: l.options.Reader, Cluster: l.options.Cluster, Owed: l.owed,
			Properties: l.properties, Suspended: l.suspended,
			Pool: func(name string) *api.PoolPolicy { return l.options.Sharing().Pool(name) },
		})
}
