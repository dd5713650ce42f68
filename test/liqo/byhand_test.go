package liqo

import (
	"context"
	"fmt"
	"slices"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/byhand"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// everyVirtualNode selects all that there are.
var everyVirtualNode = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
	MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "liqo.io/type",
		Operator: corev1.NodeSelectorOpIn, Values: []string{"virtual-node"}}},
}}}

// A peering made by hand, with a provider that lends by Bourse too, goes on as if there were no
// Bourse: its own class, a Tenant that tolerates no handshake, resize, cordon, the same namespace
// name, a pod that requests nothing, and the end. The other direction is brokered beside it, which
// the doctor tells. liqo-broker's catalog lists what Liqo knows, of both.
func TestAPeeringMadeByHandIsNotTouched(t *testing.T) {
	w := start(t)
	brokered := w.ask(t, w.rome, w.paris, "beside", amounts("1", "1Gi"))
	brokered.becomes("Active")
	w.listsForeignClusters(t, w.rome, w.paris)

	h := byhand.Peering{Consumer: w.milan, Provider: w.paris}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(at *federation.Member, o kube.Object, what string, is func() bool) {
		t.Helper()
		must(byhand.Has(t.Context(), at, o, what, is))
	}
	node := func(cpu string) {
		t.Helper()
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		has(w.milan, n, "a virtual node of "+cpu+" CPU", func() bool {
			got := n.Status.Allocatable[corev1.ResourceCPU]
			return got.String() == cpu
		})
	}
	must(h.Open(t.Context()))
	s, err := h.Slice(t.Context(), "by-hand", corev1.ResourceList(amounts("2", "4Gi")))
	must(err)
	node("2")
	w.listsForeignClusters(t, w.milan, w.paris)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	granted := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: s.Name}}
	edit := func(at *federation.Member, o kube.Object, patch string) {
		t.Helper()
		must(at.Objects.Patch(t.Context(), o.DeepCopyObject().(kube.Object),
			kube.RawPatch(types.MergePatchType, []byte(patch))))
	}
	edit(w.paris, tenant, `{"spec":{"authzPolicy":"TolerateNoHandshake"}}`)
	edit(w.milan, s, `{"spec":{"resources":{"cpu":"3"}}}`)
	node("3")

	back := w.ask(t, w.paris, w.milan, "back", amounts("1", "1Gi"))
	back.becomes(api.Active)
	eventually(t, "the doctor tells of both", func(ctx context.Context) error {
		d, err := w.paris.People(0).Diagnose(ctx)
		if err == nil && !slices.ContainsFunc(d.Problems, is(health.MixedPeering, "cluster milan")) {
			err = fmt.Errorf("it finds %+v", d.Problems)
		}
		return err
	})
	edit(w.paris, tenant, `{"spec":{"tenantCondition":"Cordoned"}}`)
	has(w.paris, granted, "Liqo cordons the slice",
		func() bool { return granted.Annotations[consts.CordonTenantAnnotation] == "true" })
	back.release()
	w.onlyByHand(t, w.paris, "milan")
	edit(w.paris, tenant, `{"spec":{"tenantCondition":"Active"}}`)
	has(w.paris, granted, "Liqo no longer cordons it",
		func() bool { return granted.Annotations[consts.CordonTenantAnnotation] == "" })
	edit(w.milan, s, `{"spec":{"resources":{"cpu":"4"}}}`)
	node("4")
	must(w.paris.Objects.Get(t.Context(), kube.ObjectKeyFromObject(tenant), tenant))
	if got := authv1beta1.GetAuthzPolicyValue(tenant.Spec.AuthzPolicy); got != authv1beta1.TolerateNoHandshake {
		t.Errorf("the Tenant made by hand says %s", got)
	}

	makeNamespace(t, w.milan, "same")
	offloading := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "offloading"},
		Spec: offv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offv1beta1.EnforceSameNameMappingStrategyType, PodOffloadingStrategy: offv1beta1.RemotePodOffloadingStrategyType,
			ClusterSelector: everyVirtualNode,
		}}
	must(w.milan.Objects.Create(t.Context(), offloading))
	has(w.milan, offloading, "namespace same is offloaded",
		func() bool { return offloading.Status.OffloadingPhase == offv1beta1.ReadyOffloadingPhaseType })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "default"}}
	has(w.milan, account, "pods may be made in it", func() bool { return true })
	grace := int64(1)
	must(w.milan.Objects.Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "c", Image: "localhost/c"}},
		}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "same", Name: "careless"}}
	has(w.paris, pod, "the pod runs in paris", func() bool { return pod.Status.Phase == corev1.PodRunning })

	must(w.milan.Objects.Delete(t.Context(), offloading))
	must(h.Close(t.Context(), s))
	brokered.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// A reservation whose peering was made by hand uses it, says so, and leaves it behind. Once its
// admins have taken it down the next reservation is brokered.
func TestComingFromAPeeringByHand(t *testing.T) {
	w := start(t)
	h := byhand.Peering{Consumer: w.rome, Provider: w.milan}
	if err := h.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	byHand, err := h.Slice(t.Context(), "by-hand", corev1.ResourceList(amounts("2", "4Gi")))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(t.Context(), "by-hand"); err != nil {
		t.Fatal(err)
	}
	made := func(want bool) {
		t.Helper()
		for _, m := range []*federation.Member{w.rome, w.milan} {
			eventually(t, fmt.Sprintf("the peering says at %s whether it was made by hand", m.Name),
				func(ctx context.Context) error {
					var list api.PeeringList
					err := m.Objects.List(ctx, &list, kube.InNamespace(api.Namespace))
					if err == nil && len(list.Items) != 1 {
						err = fmt.Errorf("there are %d", len(list.Items))
					}
					if err == nil && meta.IsStatusConditionTrue(list.Items[0].Status.Conditions, api.ConditionMixedPeering) != want {
						err = fmt.Errorf("it says %+v", list.Items[0].Status.Conditions)
					}
					return err
				})
		}
	}

	a := w.ask(t, w.rome, w.milan, "over-it", amounts("3", "3Gi"), func(r *api.ResourceRequest) {
		r.Spec.Offload.Reflect = &api.Reflect{Secrets: api.ReflectAll} // as the virtual node made by hand has it
	})
	a.becomes(api.Active)
	w.granted(t, w.rome, w.milan, "3")
	made(true)
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	a.release()
	w.onlyByHand(t, w.rome, "milan")
	w.onlyByHand(t, w.milan, "rome")
	if err := h.Ready(t.Context(), "by-hand"); err != nil {
		t.Error(err)
	}

	if err := h.Close(t.Context(), byHand); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t, w.rome, w.milan)
	b := w.ask(t, w.rome, w.milan, "brokered", amounts("3", "3Gi"))
	b.becomes(api.Active)
	made(false)
	b.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// onlyByHand waits until what is left of a peering, on both sides, is what people made.
func (w *world) onlyByHand(t *testing.T, at *federation.Member, peer string) {
	t.Helper()
	eventually(t, "only what was made by hand is left at "+at.Name, func(ctx context.Context) error {
		var list api.PeeringList
		if err := at.Objects.List(ctx, &list, kube.InNamespace(api.Namespace)); err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.Spec.Cluster == peer {
				return fmt.Errorf("%s is %s: %s", p.Name, p.Status.State, p.Status.Message)
			}
		}
		return nil
	})
}
