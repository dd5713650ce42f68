package liqo

import (
	"context"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/test/byhand"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A cluster borrows by a peering made by hand, with a slice that the SharingPolicy names. Its max counts before
// it peers. It is guarded, and gets no more than its max. It stays guarded until its peering is gone.
func TestAPlainConsumer(t *testing.T) {
	w := start(t)
	p := plainPeering{byhand.Peering{Consumer: w.milan, Provider: w.paris}, w}
	var slice *authv1beta1.ResourceSlice
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "offloading"},
		Spec: offv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
			PodOffloadingStrategy:    offv1beta1.RemotePodOffloadingStrategyType, ClusterSelector: everyVirtualNode,
		}}
	careful, careless := plainPod("careful", corev1.ResourceList(amounts("1", "64Mi"))), plainPod("careless", nil)
	named := t.Run("named in the policy", func(t *testing.T) {
		p.named(t)
		w.allocates(t, "paris", "3")
		p.listed(t, true)
		must(t, p.Open(t.Context()))
		var err error
		slice, err = p.SliceOf(t.Context(), liqo.Class, "rented", corev1.ResourceList(amounts("4", "4Gi")))
		must(t, err)
		p.rents(t, "3", "4Gi")
		makeNamespace(t, w.milan, "plain")
		must(t, w.milan.Objects.Create(t.Context(), offloading))
		has(t, w.milan, offloading, "the namespace is offloaded",
			func() bool { return offloading.Status.OffloadingPhase == offv1beta1.ReadyOffloadingPhaseType })
		w.guarded(t, w.paris, "plain-milan")
		must(t, w.milan.Objects.Create(t.Context(), careful))
		must(t, w.milan.Objects.Create(t.Context(), careless))
		has(t, w.milan, careful, "a pod runs", func() bool { return careful.Status.Phase == corev1.PodRunning })
		eventually(t, "the policies refuse a pod without requests", func(ctx context.Context) error {
			var events corev1.EventList
			if err := w.milan.Objects.List(ctx, &events, kube.InNamespace("plain")); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.InvolvedObject.Name == "careless" && e.Type == corev1.EventTypeWarning {
					return nil
				}
			}
			return fmt.Errorf("%d Events do not say so", len(events.Items))
		})
		var list corev1.PodList
		must(t, w.paris.Objects.List(t.Context(), &list, kube.InNamespace("plain-milan")))
		if len(list.Items) != 1 || list.Items[0].Name != "careful" {
			t.Errorf("at paris are %v", namesIn(&list))
		}
	})
	if !named {
		return
	}
	granted := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "rented"}}
	has(t, w.paris, granted, "nothing is granted", func() bool {
		cpu := granted.Status.Resources[corev1.ResourceCPU]
		return cpu.IsZero()
	})
	p.listed(t, true)
	for _, pod := range []*corev1.Pod{careful, careless} {
		must(t, kube.IgnoreNotFound(w.milan.Objects.Delete(t.Context(), pod, kube.GracePeriodSeconds(1))))
	}
	must(t, w.milan.Objects.Delete(t.Context(), offloading))
	must(t, p.Close(t.Context(), slice))
	p.listed(t, false)
}

// What the policies would refuse is named before they know the consumer. Nothing of it is touched. Once it is
// gone, the consumer gets its slice.
func TestAPlainConsumerThatHasMore(t *testing.T) {
	w := start(t)
	p := plainPeering{byhand.Peering{Consumer: w.milan, Provider: w.paris}, w}
	must(t, p.Open(t.Context()))
	slice, err := p.Slice(t.Context(), "other", corev1.ResourceList(amounts("2", "4Gi")))
	must(t, err)
	must(t, p.Ready(t.Context(), slice.Name))
	t.Run("named in the policy", func(t *testing.T) {
		p.named(t)
		w.finds(t, w.paris, health.PlainConsumerRefused, "cluster milan")
		p.listed(t, false)
		must(t, p.Ready(t.Context(), slice.Name))
		must(t, p.End(t.Context(), slice))
		p.listed(t, true)
		slice, err = p.SliceOf(t.Context(), liqo.Class, "rented", corev1.ResourceList(amounts("9", "4Gi")))
		must(t, err)
		p.rents(t, "3", "4Gi")
	})
	must(t, p.Close(t.Context(), slice))
	p.listed(t, false)
}

// allocates waits until rome knows that so many CPUs of a provider are allocated.
func (w *world) allocates(t *testing.T, provider, cpu string) {
	t.Helper()
	eventually(t, cpu+" CPUs of "+provider+" are allocated", func(ctx context.Context) error {
		c, err := w.rome.People(0).Cluster(ctx, provider)
		if err != nil {
			return err
		}
		if got := c.Payload.Pools[api.GeneralPool].Allocated[corev1.ResourceCPU]; got.String() != cpu {
			return fmt.Errorf("allocated are %s", got.String())
		}
		return nil
	})
}

// plainPeering is a peering that was made by hand.
type plainPeering struct {
	byhand.Peering
	w *world
}

// named names the consumer's slice "rented" in the policy of the provider, until the test ends.
func (p plainPeering) named(t *testing.T) {
	t.Helper()
	p.w.withPolicy(t, p.Provider, func(s *api.Sharing) {
		s.Pools[0].PlainConsumers = []api.PlainConsumer{{Cluster: p.Consumer.Name, Slice: "rented", Max: amounts("3", "6Gi")}}
	})
}

// rents waits until the consumer has a virtual node of this size.
func (p plainPeering) rents(t *testing.T, cpu, memory string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rented"}}
	has(t, p.Consumer, node, "a virtual node of "+cpu+" CPU and "+memory, func() bool {
		return node.Status.Allocatable.Cpu().String() == cpu && node.Status.Allocatable.Memory().String() == memory
	})
}

// listed waits until the policies of the provider know the consumer, or do not.
func (p plainPeering) listed(t *testing.T, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is under the policies: %t", p.Consumer.Name, want), func(ctx context.Context) error {
		var m corev1.ConfigMap
		err := p.Provider.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "bourse-consumers"}, &m)
		if err == nil && (m.Data[p.Consumer.Name] != "") != want {
			err = fmt.Errorf("the list is %v", m.Data)
		}
		return err
	})
}

func plainPod(name string, requests corev1.ResourceList) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "c", Image: "localhost/c",
			Resources: corev1.ResourceRequirements{Requests: requests}}},
	}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func has(t *testing.T, at *federation.Member, o kube.Object, what string, is func() bool) {
	t.Helper()
	must(t, byhand.Has(t.Context(), at, o, what, is))
}
