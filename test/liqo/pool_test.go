package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// The virtual node offers the pool's classes, and pods run on the pool's nodes, even if the
// consumer asks for others.
func TestThePoolsNodesAndClasses(t *testing.T) {
	w := start(t)
	w.withPolicy(t, w.paris, func(s *api.Sharing) {
		p := &s.Pools[0]
		p.NodeSelector = map[string]string{corev1.LabelHostname: "paris-1"}
		p.TolerateTaints = []string{"dedicated"}
		p.StorageClasses, p.IngressClasses, p.LoadBalancerClasses = []string{"fast",
			"slow"}, []string{"nginx"}, []string{"metal"}
	})
	a := w.ask(t, w.rome, w.paris, "pooled", amounts("2", "2Gi"))
	a.becomes(api.Active)
	slice := market.SliceName("rome", "paris", api.GeneralPool)
	eventually(t, "the virtual node offers what the policy says", func(ctx context.Context) error {
		var v offv1beta1.VirtualNode
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-paris", Name: slice}, &v); err != nil {
			return err
		}
		if s := v.Spec; !slices.Equal(s.StorageClasses,
			[]liqov1beta1.StorageType{{StorageClassName: "fast", Default: true}, {StorageClassName: "slow"}}) ||
			!slices.Equal(s.IngressClasses, []liqov1beta1.IngressType{{IngressClassName: "nginx", Default: true}}) ||
			!slices.Equal(s.LoadBalancerClasses,
				[]liqov1beta1.LoadBalancerType{{LoadBalancerClassName: "metal", Default: true}}) ||
			s.OffloadingPatch == nil || s.OffloadingPatch.NodeSelector[corev1.LabelHostname] != "paris-1" {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	a.run(4, "100m", "64Mi")
	a.running(w.paris, 4)
	var list corev1.PodList
	if err := w.paris.Objects.List(t.Context(), &list, kube.InNamespace("pooled-rome")); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Spec.NodeName != "paris-1" {
			t.Errorf("pod %s runs on %s", p.Name, p.Spec.NodeName)
		}
	}
	kubelet := w.as(t, w.rome, w.paris, "kubeconfig-resourceslice-"+slice)
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		says   string
	}{
		"elsewhere": {func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: "paris-2"} },
			"select the nodes of its pool"},
		"anywhere": {func(s *corev1.PodSpec) { s.NodeSelector = nil }, "select the nodes of its pool"},
		"on other tainted": {func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "control-plane"}} },
			"nothing else"},
		"on tainted, as told": {func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}, ""},
	} {
		spec := corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: "paris-1"},
			Containers: []corev1.Container{{Name: "c", Image: "localhost/c",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("100m", "64Mi"))}}},
		}
		c.change(&spec)
		err := kubelet.Create(t.Context(), &offv1beta1.ShadowPod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "pooled-rome", Name: "any",
				Labels: map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "paris"}},
			Spec: offv1beta1.ShadowPodSpec{Pod: spec},
		}, kube.DryRunAll)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("a pod %s: %v, want %q", name, err, c.says)
		}
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// Two pools are two virtual nodes of one provider, each on nodes of its own. When one of them goes,
// what runs on the other never stops: Liqo's map of the namespaces is kept until the last.
func TestSeveralPools(t *testing.T) {
	w := start(t)
	t.Cleanup(func() { w.offers(t, "milan", map[string]string{api.GeneralPool: "32"}) })
	on := func(node string) map[string]string { return map[string]string{corev1.LabelHostname: node} }
	w.withPolicy(t, w.milan, func(s *api.Sharing) {
		s.Pools = []api.PoolPolicy{{Name: "fast", NodeSelector: on("milan-1")},
			{Name: api.GeneralPool, NodeSelector: on("milan-2")}}
	})
	w.offers(t, "milan", map[string]string{api.GeneralPool: "16", "fast": "16"})
	ask := func(name, pool string) *asked {
		a := w.ask(t, w.rome, w.milan, name, amounts("2", "2Gi"), func(r *api.ResourceRequest) { r.Spec.Pool = pool })
		a.becomes(api.Active)
		return a
	}
	general, fast := ask("in-general", ""), ask("in-fast", "fast")
	for _, a := range []*asked{general, fast} {
		a.run(2, "100m", "64Mi", func(p *corev1.PodSpec) {
			p.NodeSelector["bourse.dev/pool"] = map[string]string{"in-general": api.GeneralPool,
				"in-fast": "fast"}[a.request.Name]
		})
		a.running(w.milan, 2)
	}
	for namespace, node := range map[string]string{"in-general-rome": "milan-2", "in-fast-rome": "milan-1"} {
		var list corev1.PodList
		if err := w.milan.Objects.List(t.Context(), &list, kube.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.Spec.NodeName != node {
				t.Errorf("pod %s/%s runs on %s", namespace, p.Name, p.Spec.NodeName)
			}
		}
	}
	var maps offv1beta1.NamespaceMapList
	if err := w.rome.Objects.List(t.Context(), &maps, kube.InNamespace("liqo-tenant-milan")); err != nil ||
		len(maps.Items) != 1 {
		t.Fatalf("%d NamespaceMaps, %v", len(maps.Items), err)
	}
	if err := w.rome.Objects.Delete(t.Context(), &maps.Items[0], kube.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("the map of both goes: %v", err)
	}
	before := podsIn(t, w.milan, "in-general-rome")
	fast.release()
	eventually(t, "the virtual node of the pool is gone", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Name: market.SliceName("rome", "milan", "fast")}, &corev1.Node{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	general.running(w.milan, 2)
	if after := podsIn(t, w.milan, "in-general-rome"); !slices.Equal(before, after) {
		t.Errorf("the pods of the other pool were %v, are %v", before, after)
	}
	again := ask("again-in-fast", "fast")
	if err := w.rome.Objects.Delete(t.Context(), again.request); err != nil { // and both at once
		t.Fatal(err)
	}
	general.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// offers waits until a provider shares so many CPUs of each of its pools, and nothing else.
func (w *world) offers(t *testing.T, provider string, cpus map[string]string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s shares %v", provider, cpus), func(context.Context) error {
		c, err := w.rome.People(0).Cluster(context.Background(), provider)
		if err != nil {
			return err
		}
		if len(c.Payload.Pools) != len(cpus) {
			return fmt.Errorf("it has %d pools", len(c.Payload.Pools))
		}
		for name, cpu := range cpus {
			pool := c.Payload.Pools[name]
			shared, usable := pool.Shared[corev1.ResourceCPU], pool.Allocatable[corev1.ResourceCPU]
			if shared.String() != cpu || usable.Cmp(shared) < 0 {
				return fmt.Errorf("%s shares %s of %s", name, shared.String(), usable.String())
			}
		}
		return nil
	})
}
