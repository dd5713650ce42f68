package policies

import (
	"errors"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

var errNotKnown = errors.New("it is let in")

// Each validation of the policies on what a consumer's virtual kubelet writes refuses something by
// itself, in its own words: who takes one out sees it here.
func TestEachRuleRefusesSomething(t *testing.T) {
	w := start(t)
	said := map[string]bool{}
	try := func(a account, o kube.Object) {
		t.Helper()
		err := w.mustAs(t, a).Create(t.Context(), o, kube.DryRunAll)
		if !isPolicy(err) {
			t.Errorf("%T is let in: %v", o, err)
			return
		}
		_, words, _ := strings.Cut(err.Error(), "denied request: ")
		said[words] = true
	}
	rome := kubeletOf("rome", user)
	for kind, all := range wrong {
		for _, change := range all {
			o := honest(kind, "wrong")
			change(o)
			try(accountFor(kind), o)
		}
	}
	for _, change := range []func(kube.Object){
		func(o kube.Object) { o.SetLabels(with(o.GetLabels(), "liqo.io/nonce", "true")) },
		annotated("liqo.io/cordon", "true"),
		func(o kube.Object) { o.SetFinalizers([]string{"rome.example/never"}) },
		func(o kube.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1"}})
		},
	} {
		o := honest("configmaps", "wrong")
		change(o)
		try(rome, o)
	}
	try(rome, honest("events", "wrong"))
	for _, change := range []func(*corev1.PodSpec){
		func(s *corev1.PodSpec) { s.SchedulerName = "mine" },
		func(s *corev1.PodSpec) { s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} },
		func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
		},
		func(s *corev1.PodSpec) {
			projected(s).Sources[0] = corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "p"}}
		},
		func(s *corev1.PodSpec) { // its cpu is in the second, which Liqo does not count
			more := s.InitContainers[0].DeepCopy()
			more.Name, more.Resources.Limits = "more", nil
			more.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("900m")
			s.InitContainers = append(s.InitContainers, *more)
		},
	} {
		o := honest("shadowpods", "wrong").(*offv1beta1.ShadowPod)
		change(&o.Spec.Pod)
		try(rome, o)
	}
	// of the fields that the list of consumers does not mention
	plain := honest("shadowpods", "wrong").(*offv1beta1.ShadowPod)
	plain.Spec.Pod.RuntimeClassName, plain.Spec.Pod.Volumes = nil, nil
	try(kubeletOf("rome", "rome-unknown"), plain)

	const young = "rules-rome"
	if err := w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: young,
		Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.bind(t.Context(), young, "liqo-virtual-kubelet-remote", rbacv1.GroupKind, "rome"); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"shadowpods", "configmaps"} {
		o := honest(kind, "wrong")
		o.SetNamespace(young)
		w.eventually(t, "the binding is known", func() error {
			if err := w.mustAs(t, rome).Create(t.Context(), o.DeepCopyObject().(kube.Object), kube.DryRunAll); !isPolicy(err) {
				return err
			}
			return nil
		})
		try(rome, o)
	}

	change := func(key, value string) { // of the list of consumers
		m := &corev1.ConfigMap{}
		if err := w.admin.Get(t.Context(), kube.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}, m); err != nil {
			t.Fatal(err)
		}
		m.Data[key] = value
		if err := w.keeper.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := w.list(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for key, value := range map[string]string{"rome": "brokered, limits", user + ".nodes": "bourse.dev/pool=general"} {
		change(key, value)
		o := honest("shadowpods", "wrong").(*offv1beta1.ShadowPod)
		for i := range o.Spec.Pod.Containers {
			o.Spec.Pod.Containers[i].Resources.Limits = nil
		}
		w.eventually(t, "the list is known", func() error {
			if err := w.mustAs(t, rome).Create(t.Context(), o.DeepCopy(), kube.DryRunAll); !isPolicy(err) {
				return errNotKnown
			}
			return nil
		})
		try(rome, o)
		if err := w.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.eventually(t, "the list is known again",
			func() error { return w.mustAs(t, rome).Create(t.Context(), o.DeepCopy(), kube.DryRunAll) })
	}

	w.without(t, []string{"bourse-pod-amounts"}, func() error { // which says the same, and more
		o := loose(t, honest("shadowpods", "wrong"))
		put(o.Object, strings.Split("spec.pod.containers[].resources.requests{}", "."), slow)
		err := w.mustAs(t, rome).Create(t.Context(), o, kube.DryRunAll)
		if strings.Contains(err.Error(), "'bourse-pod-amounts'") {
			return err
		}
		try(rome, o)
		return nil
	})

	for _, name := range []string{"bourse-pods", "bourse-reflected"} {
		var p admissionv1.ValidatingAdmissionPolicy
		if err := w.admin.Get(t.Context(), kube.ObjectKey{Name: name}, &p); err != nil {
			t.Fatal(err)
		}
		for _, v := range p.Spec.Validations {
			proof := v.Message == name+": in force" // TestEachPolicyIsProven asks for it
			if !said[v.Message] && !proof {
				t.Errorf("%s: nothing was refused because %q", name, v.Message)
			}
		}
	}
}
