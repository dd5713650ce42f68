package guard

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// store sets the quota of a namespace to its part of the storage that its consumer has reserved, if any.
func (g *Guard) store(ctx context.Context, ns *corev1.Namespace, q *corev1.ResourceQuota) error {
	total, err := g.Storage(ctx, liqo.Peer(ns))
	if err != nil || total == 0 {
		return err
	}
	var all corev1.NamespaceList
	if err := g.List(ctx, &all, liqo.Of(liqo.Peer(ns))); err != nil {
		return err
	}
	// Read from the API server: with stale quotas, two parts that grow at once could exceed the total.
	var quotas corev1.ResourceQuotaList
	if err := g.Reader.List(ctx, &quotas, client.MatchingLabels(liqo.Managed())); err != nil {
		return err
	}
	holds := map[string]held{}
	for i := range quotas.Items {
		if o := &quotas.Items[i]; o.Name == name {
			holds[o.Namespace] = heldBy(o)
		}
	}
	own, others, sharers := holds[ns.Name], []held{}, 1
	for i := range all.Items {
		o := &all.Items[i]
		if o.Name == ns.Name || !Mapped(o) {
			continue
		}
		if others = append(others, holds[o.Name]); o.DeletionTimestamp == nil {
			sharers++
		}
	}
	q.Spec.Hard[corev1.ResourceRequestsStorage] = *resource.NewQuantity(part(total, own, others, sharers),
		resource.BinarySI)
	return nil
}

// held is the storage of its consumer that one namespace may use, and uses, in bytes.
type held struct{ may, used int64 }

// heldBy reads a quota. The old limit counts until Kubernetes has applied the new one.
func heldBy(q *corev1.ResourceQuota) held {
	of := func(list corev1.ResourceList) int64 {
		amount := list[corev1.ResourceRequestsStorage]
		return amount.Value()
	}
	used := of(q.Status.Used)
	return held{max(of(q.Spec.Hard), of(q.Status.Hard), used), used}
}

// part returns the share of a namespace in a total: the storage that it uses and an equal part of the
// unused storage. It never includes storage that another namespace may still use: the others shrink
// first. So all together never exceed the total, and a namespace that needs more gets it step by step.
func part(total int64, own held, others []held, sharers int) int64 {
	free, taken := total-own.used, int64(0)
	for _, o := range others {
		free -= o.used
		taken += o.may
	}
	return max(0, min(own.used+max(free, 0)/int64(sharers), total-taken))
}
