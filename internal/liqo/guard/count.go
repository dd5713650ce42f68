package guard

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

const (
	countSecrets        corev1.ResourceName = "count/secrets"
	countConfigMaps     corev1.ResourceName = "count/configmaps"
	countEndpointSlices corev1.ResourceName = "count/shadowendpointslices.offloading.liqo.io"
	countShadowPods     corev1.ResourceName = "count/shadowpods.offloading.liqo.io"
)

// shares is how many times the quota of one namespace a consumer may have of what is counted in all its namespaces together. By default
// that is 300 Services, 600 Secrets, 600 ConfigMaps, 600 ShadowEndpointSlices and 3,000 ShadowPods, of which those that have ended count, too.
const shares = 3

// shared is what is counted in all namespaces of a consumer together: what fills etcd, or the range of addresses of Services.
var shared = []corev1.ResourceName{corev1.ResourceServices, countSecrets, countConfigMaps, countEndpointSlices, countShadowPods}

// count makes the quota of a namespace count what its consumer was granted, as Kubernetes counts pods: until they have ended.
// Liqo counts them until their deletion begins. What is counted in all namespaces together is what the others leave.
func (g *Guard) count(ctx context.Context, ns *corev1.Namespace, q *corev1.ResourceQuota) error {
	granted, err := g.Granted(ctx, liqo.Peer(ns))
	if err != nil {
		return err
	}
	limit(q.Spec.Hard, granted)
	var all corev1.NamespaceList
	if err := g.List(ctx, &all, liqo.Of(liqo.Peer(ns))); err != nil {
		return err
	}
	used := map[corev1.ResourceName]int64{}
	for i := range all.Items {
		if all.Items[i].Name == ns.Name {
			continue
		}
		var other corev1.ResourceQuota
		if err := g.Get(ctx, client.ObjectKey{Namespace: all.Items[i].Name, Name: name}, &other); client.IgnoreNotFound(err) != nil {
			return err
		}
		for what, amount := range other.Status.Used {
			used[what] += amount.Value()
		}
	}
	for _, what := range shared {
		most := q.Spec.Hard[what]
		if left := max(0, shares*most.Value()-used[what]); left < most.Value() {
			q.Spec.Hard[what] = *resource.NewQuantity(left, resource.DecimalSI)
		}
	}
	return nil
}

// limit makes a quota no more than what is granted. The policy may allow less.
func limit(hard corev1.ResourceList, granted api.Resources) {
	for what, amount := range granted {
		counted := "requests." + what
		switch {
		case what == corev1.ResourcePods:
			counted = what
		case !countable(what): // storage has parts
			continue
		}
		if most, there := hard[counted]; !there || amount.Cmp(most) < 0 {
			hard[counted] = amount
		}
	}
}

// countable says whether Kubernetes counts what pods request of a resource.
func countable(what corev1.ResourceName) bool {
	switch what {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(what), corev1.ResourceHugePagesPrefix) || strings.Contains(string(what), "/")
}
