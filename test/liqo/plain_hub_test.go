package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/test/byhand"
)

// A customer with nothing but Liqo borrows from a hub by a peering made by hand. Its pods run at the hub's
// provider, and never on nodes of the hub.
func TestAPlainCustomerOfAHub(t *testing.T) {
	w := start(t)
	w.hub(t, poolLabel)
	pool := w.gathers(t, amounts("8", "16Gi"), "paris")
	w.offers(t, "milan", map[string]string{api.GeneralPool: "8"})
	p := plainPeering{byhand.Peering{Consumer: w.rome, Provider: w.milan}, w}
	p.named(t)
	p.listed(t, true)
	w.allocates(t, "milan", "3")
	must(t, p.Open(t.Context()))
	slice, err := p.SliceOf(t.Context(), liqo.Class, "rented", corev1.ResourceList(amounts("4", "4Gi")))
	must(t, err)
	p.rents(t, "3", "4Gi")
	makeNamespace(t, w.rome, "plain")
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "offloading"},
		Spec: offv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
			PodOffloadingStrategy:    offv1beta1.RemotePodOffloadingStrategyType, ClusterSelector: everyVirtualNode,
		}}
	must(t, w.rome.Objects.Create(t.Context(), offloading))
	w.guarded(t, w.milan, "plain-rome")
	pod := plainPod("careful", corev1.ResourceList(amounts("1", "64Mi")))
	must(t, w.rome.Objects.Create(t.Context(), pod))
	has(t, w.rome, pod, "the pod runs", func() bool { return pod.Status.Phase == corev1.PodRunning })
	var atHub corev1.PodList
	must(t, w.milan.Objects.List(t.Context(), &atHub, kube.InNamespace("plain-rome")))
	if node := upstreamNode(t, w, poolLabel).Name; len(atHub.Items) != 1 || atHub.Items[0].Spec.NodeName != node {
		t.Errorf("at the hub are %v, want one on %s", namesIn(&atHub), node)
	}
	eventually(t, "the pod runs at the hub's provider", func(ctx context.Context) error {
		var list corev1.PodList
		err := w.paris.Objects.List(ctx, &list, kube.MatchingLabels{"liqo.io/managed-by": "shadowpod"})
		for _, there := range list.Items {
			if strings.HasPrefix(there.Namespace, "agg-") && there.Status.Phase == corev1.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("it has %v, %w", namesIn(&list), err)
	})
	must(t, w.rome.Objects.Delete(t.Context(), pod, kube.GracePeriodSeconds(1)))
	must(t, w.rome.Objects.Delete(t.Context(), offloading))
	must(t, p.Close(t.Context(), slice))
	w.noCustomerAt(t, w.paris)
	w.withPolicy(t, w.milan, func(s *api.Sharing) { s.Pools[0].PlainConsumers = nil })
	p.listed(t, false)
	w.allocates(t, "milan", "0")
	w.disbanded(t, pool)
	w.nothingLeft(t, w.milan, w.paris)
}
