package policies

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// withoutGuard takes the guard's binding away, does something that the guard refuses, and binds the guard again.
func (w *world) withoutGuard(t *testing.T, do func() error) {
	t.Helper()
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	if err := w.admin.Get(t.Context(), kube.ObjectKey{Name: "bourse-guard"}, &binding); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Delete(t.Context(), &binding); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "without the guard", do)
	again := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "bourse-guard"},
		Spec: binding.Spec}
	if err := w.admin.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the guard is back", w.isGuarded)
}

// isGuarded returns an error while an admin could delete the list, or make another one.
func (w *world) isGuarded() error {
	m := consumerList()
	err := w.admin.Delete(context.Background(), m, kube.DryRunAll)
	if apierrors.IsNotFound(err) {
		err = w.admin.Create(context.Background(), m, kube.DryRunAll)
	}
	if !isRefusal(err, "bourse-guard: ") {
		return fmt.Errorf("the list is not guarded: %w", err)
	}
	return nil
}

func consumerList() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-consumers"}}
}

// Nobody but the agent changes what the list of consumers holds, and nobody removes it: not an admin, not an
// upgrade that replaces it, not a deletion of all ConfigMaps, not the agent. Its namespace goes only when an admin
// says so, by the line that the refusal shows. What the list does not hold may change.
func TestTheListOfConsumersIsGuarded(t *testing.T) {
	w := start(t)
	w.eventually(t, "the guard is in force", w.isGuarded)
	list := consumerList()
	if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(list), list); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		m := list.DeepCopy()
		change(m)
		return m
	}
	fresh := consumerList()
	fresh.Data = map[string]string{"milan": "brokered"}
	forced := fresh.DeepCopy()
	forced.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	for name, do := range map[string]func() error{
		"delete":               func() error { return w.admin.Delete(t.Context(), consumerList()) },
		"delete by the agent":  func() error { return w.keeper.Delete(t.Context(), consumerList()) },
		"replace without data": func() error { return w.admin.Update(t.Context(), consumerList()) },
		"another entry": func() error {
			return w.admin.Update(t.Context(), changed(func(m *corev1.ConfigMap) { m.Data["milan"] = "brokered" }))
		},
		"binary data": func() error {
			return w.admin.Update(t.Context(), changed(func(m *corev1.ConfigMap) {
				m.BinaryData = map[string][]byte{"x": {1}}
			}))
		},
		"for ever": func() error {
			return w.admin.Update(t.Context(), changed(func(m *corev1.ConfigMap) { m.Immutable = new(true) }))
		},
		"a patch": func() error {
			return w.admin.Patch(t.Context(), consumerList(), kube.RawPatch(types.MergePatchType, []byte(`{"data":null}`)))
		},
		"a forced apply": func() error {
			//lint:ignore SA1019 as Helm does
			return w.admin.Patch(t.Context(), forced, kube.Apply, kube.ForceOwnership, kube.FieldOwner("helm"))
		},
		"delete all, with a field selector": func() error {
			return w.admin.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, kube.InNamespace("bourse"),
				kube.MatchingFields{"metadata.name": list.Name})
		},
		"delete all": func() error {
			return w.admin.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, kube.InNamespace("bourse"))
		},
	} {
		if err := do(); !isRefusal(err, "bourse-guard: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var now corev1.ConfigMap
	if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(list), &now); err != nil || !maps.Equal(now.Data, list.Data) {
		t.Fatalf("it holds %v, want %v, %v", now.Data, list.Data, err)
	}
	labelled := changed(func(m *corev1.ConfigMap) { m.Labels = map[string]string{"by": "helm"} })
	if err := w.admin.Update(t.Context(), labelled); err != nil {
		t.Errorf("the same data with a label: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bourse"}}
	const line = "kubectl annotate namespace bourse bourse.dev/may-die=true"
	if err := w.admin.Delete(t.Context(), namespace); !isRefusal(err, line) {
		t.Fatalf("its namespace: %v", err)
	}
	for _, value := range []string{`{"bourse.dev/may-die":"true"}`, `{"bourse.dev/may-die":null}`} {
		patch := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+value+`}}`))
		if err := w.admin.Patch(t.Context(), namespace, patch); err != nil {
			t.Fatal(err)
		}
		err := w.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bourse"}}, kube.DryRunAll)
		if (err == nil) != (len(namespace.Annotations) > 0) {
			t.Errorf("with annotations %v: %v", namespace.Annotations, err)
		}
	}
	others := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "others"}}
	if err := w.admin.Create(t.Context(), others); err != nil {
		t.Errorf("another ConfigMap: %v", err)
	} else if err := w.admin.Delete(t.Context(), others); err != nil {
		t.Errorf("another ConfigMap: %v", err)
	}
}

// The agent makes the list, with the consumers that have a peering by it. Where the guard was taken away and the
// list removed or emptied, it writes the list again within a second, also as the next agent.
func TestTheAgentKeepsTheList(t *testing.T) {
	w := start(t)
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	of := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "kept", Labels: liqo.Labels("kept")},
		Spec: authv1beta1.TenantSpec{ClusterID: "kept"}}
	if err := w.admin.Create(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.Delete(context.Background(), of); err != nil {
			t.Error(err)
		}
	})
	as := rest.CopyConfig(w.cluster.Config())
	as.Impersonate = rest.ImpersonationConfig{UserName: agentsUser, Groups: []string{"system:masters"}}
	clients, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(100)
	keep := func() *posture.ConsumerList {
		return &posture.ConsumerList{Reader: w.keeper, Writer: w.keeper, Namespace: "bourse",
			Watched: clients.CoreV1().ConfigMaps("bourse"), Events: recorder, Log: slog.New(slog.DiscardHandler)}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	first := keep()
	if err := first.Make(ctx); err != nil {
		t.Fatal(err)
	}
	wasGone := func() {
		t.Helper()
		const why = "none of the 1 consumers that have peerings was listed: it was removed or emptied while no agent ran"
		if said := <-recorder.Events; !strings.Contains(said, why) {
			t.Errorf("the next agent says %q", said)
		}
	}
	wasGone()
	go func() { ended <- first.Run(ctx) }()
	policies := &posture.Policies{Known: w.keeper, Reader: w.keeper, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo",
		Consumers: first}
	if err := policies.List(ctx, "listed", &posture.Demands{Limits: true}, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kept": "brokered", "listed": "brokered, limits", "rome": "brokered"}
	back := func(what string, since time.Time) {
		t.Helper()
		w.eventually(t, what, func() error {
			m := consumerList()
			if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(m), m); err != nil {
				return err
			}
			for k, v := range want {
				if m.Data[k] != v {
					return fmt.Errorf("%s is %q, want %q", k, m.Data[k], v)
				}
			}
			return nil
		})
		t.Logf("%s: after %s", what, time.Since(since))
	}
	back("at first", time.Now())
	empty := []byte(`{"data":null}`)
	for what, do := range map[string]func() error{
		"removed": func() error { return w.admin.Delete(t.Context(), consumerList()) },
		"emptied": func() error {
			return w.admin.Patch(t.Context(), consumerList(), kube.RawPatch(types.MergePatchType, empty))
		},
	} {
		w.withoutGuard(t, func() error {
			began := time.Now()
			if err := do(); err != nil {
				return err
			}
			back(what, began)
			return nil
		})
		select {
		case event := <-recorder.Events:
			if cause := map[string]string{"removed": "removed", "emptied": "another account changed it"}[what]; !strings.Contains(event, cause) {
				t.Errorf("%s: the Event is %q", what, event)
			}
		case <-time.After(patience):
			t.Errorf("%s: no Event", what)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.withoutGuard(t, func() error { return w.admin.Delete(t.Context(), consumerList()) })
	delete(want, "listed") // it has no Tenant
	delete(want, "rome")
	if err := keep().Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	back("by the next agent", time.Now())
	wasGone()
}
