package borrowing

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// handMadeEvery is how often something is looked at that waits and causes no event.
const handMadeEvery = time.Second

// Control starts the controller that offloads the namespaces of a hub's customers to providers without
// reservations: no Peering is about these.
func (b *Borrowing) Control(m ctrl.Manager) error {
	policy := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if liqo.Peer(o) == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: sharingPolicy}}}
	})
	return ctrl.NewControllerManagedBy(m).Named("handmade").For(&api.SharingPolicy{}).
		Watches(&corev1.Namespace{}, policy).Watches(liqo.VirtualNode(), policy).
		Watches(&corev1.Node{}, policy, builder.WithPredicates(predicate.LabelChangedPredicate{})).Complete(b)
}

// Reconcile offloads the namespaces of customers to the providers of peerings made by hand, and takes
// them back from those that the SharingPolicy no longer names.
func (b *Borrowing) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	again := ctrl.Result{}
	all, err := b.loans(ctx)
	if err != nil {
		return again, kubeobject.Error(err)
	}
	providers, err := b.handMade(ctx, all)
	for _, provider := range providers {
		waits, err := b.serveHandMade(ctx, all, provider)
		if err != nil {
			return again, kubeobject.Error(err)
		}
		if waits {
			again.RequeueAfter = handMadeEvery
		}
	}
	return again, kubeobject.Error(err)
}

// handMade returns the providers that this cluster has no reservation with, and to which namespaces of
// customers are or are to be offloaded.
func (b *Borrowing) handMade(ctx context.Context, all []bound) ([]string, error) {
	hub, err := b.hub(ctx)
	if err != nil {
		return nil, err
	}
	providers, err := b.relending(ctx, hub, all)
	if err != nil {
		return nil, err
	}
	customers, err := b.namespaces.Customers(ctx, b.options.Client)
	if err != nil {
		return nil, err
	}
	for namespace := range customers {
		more, err := b.namespaces.Labelled(ctx, namespace)
		if err != nil {
			return nil, err
		}
		providers = append(providers, more...)
	}
	leaving, err := b.namespaces.Leaving(ctx) // cordoned, and to be uncordoned
	if err != nil {
		return nil, err
	}
	providers = append(providers, leaving...)
	slices.Sort(providers)
	var out []string
	for _, provider := range slices.Compact(providers) {
		names, err := b.options.Slices.Names(ctx, provider) // of what is about to end
		if err != nil {
			return nil, err
		}
		if len(names) == 0 && !slices.ContainsFunc(all, func(l bound) bool { return l.Provider == provider }) {
			out = append(out, provider)
		}
	}
	return out, nil
}

// serveHandMade makes the labels of the virtual nodes with a provider what the SharingPolicy says, and reports
// whether pods are still on their way from there. Only namespaces of customers are touched.
func (b *Borrowing) serveHandMade(ctx context.Context, all []bound, provider string) (waits bool, err error) {
	wanted, err := b.offload(ctx, all, provider)
	if err != nil {
		return false, err
	}
	nodes, have, err := b.label(ctx, provider, wanted, nil)
	if err != nil {
		return false, err
	}
	customers, err := b.namespaces.Customers(ctx, b.options.Client)
	if err != nil {
		return false, err
	}
	leaving := slices.DeleteFunc(have, func(name string) bool {
		return customers[name].ID == "" || slices.Contains(wanted, name)
	})
	if len(leaving) == 0 {
		for _, node := range nodes {
			if err := b.namespaces.Uncordon(ctx, node); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	// Else the scheduler could put pods there until the label is off, and they would never run.
	now := b.options.Market.Now().Go()
	for _, node := range nodes {
		since, err := b.namespaces.Cordon(ctx, node, now)
		if err != nil || since.Equal(now) { // pods that it has just placed are seen at the next look
			return true, err
		}
		late := now.Sub(since) > b.options.Graces.Shrink+b.options.Graces.Excess
		if message, err := b.empty(ctx, node, leaving, false, late); err != nil || message != "" {
			return true, err
		}
	}
	return true, b.namespaces.SetLabels(ctx, provider, nil, leaving, nil)
}
