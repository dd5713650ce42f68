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

// shares times the quota of one namespace is the limit for all namespaces of a consumer together. By
// default that is 300 Services, 600 Secrets, 600 ConfigMaps, 600 ShadowEndpointSlices and 3,000
// ShadowPods, including ended ones.
const shares = 3

// shared lists the objects that are counted in all namespaces of a consumer together: those that
// fill etcd or the address range of Services.
var shared = []corev1.ResourceName{corev1.ResourceServices, countSecrets,
	countConfigMaps, countEndpointSlices, countShadowPods}

// count limits the quota of a namespace to the resources that its consumer was granted. Kubernetes
// counts a pod until it has ended; Liqo counts it only until its deletion begins. For the shared
// objects, count subtracts those in the consumer's other namespaces.
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
		err := g.Get(ctx, client.ObjectKey{Namespace: all.Items[i].Name, Name: name}, &other)
		if client.IgnoreNotFound(err) != nil {
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

// limit lowers a quota to the granted resources. The policy may allow less.
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

// countable reports whether Kubernetes counts pods' requests for a resource.
func countable(what corev1.ResourceName) bool {
	switch what {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(what), corev1.ResourceHugePagesPrefix) || strings.Contains(string(what), "/")
}
