package policies

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// With all roles of config the agent may read, evict and delete pods, and do nothing else to them. It deletes those of consumers in namespaces that
// it guards and those that run on virtual nodes, and no others: not the provider's own, nor what the provider runs in a consumer's namespace.
func TestPodsThatTheAgentDeletes(t *testing.T) {
	w := start(t)
	if err := w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"rbac/agent.yaml", "liqo/peerings.yaml", "liqo/provider.yaml", "liqo/consumer.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.cluster.Apply(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	agent := account{"agent", rest.ImpersonationConfig{UserName: "system:serviceaccount:bourse:bourse-agent", Groups: []string{"system:serviceaccounts", "system:authenticated"}}}
	want := []string{"pods delete", "pods list", "pods watch", "pods/eviction create"}
	w.eventually(t, "the roles are known", func() error {
		return w.mustAs(t, agent).List(t.Context(), &corev1.PodList{})
	})
	may := slices.DeleteFunc(slices.Sorted(maps.Keys(w.rights(t, agent, mapped))), func(r string) bool { return !strings.HasPrefix(r, "pods") })
	if !slices.Equal(may, want) {
		t.Errorf("of pods the agent may %q, want %q", may, want)
	}

	const young = "unguarded-rome"
	if err := w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: young, Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}}}); err != nil {
		t.Fatal(err)
	}
	consumers := map[string]string{"liqo.io/managed-by": "shadowpod", "liqo.io/creator-user": user}
	for _, p := range []struct {
		what, namespace string
		labels          map[string]string
		let             bool
	}{
		{"a consumer's, in a namespace that is guarded", mapped, consumers, true},
		{"one that runs on a virtual node", own, map[string]string{"liqo.io/shadowPod": "true"}, true},
		{"the provider's own", own, nil, false},
		{"the provider's own, labelled as a consumer's", own, consumers, false},
		{"the provider's, in a consumer's namespace", mapped, map[string]string{"app": "collector"}, false},
		{"one that says half of it", mapped, map[string]string{"liqo.io/managed-by": "shadowpod"}, false},
		{"a consumer's, in a namespace that is not guarded", young, consumers, false},
	} {
		t.Run(p.what, func(t *testing.T) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "default"}}
			if err := w.admin.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deleted", Labels: p.labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/c"}}}}
			if err := w.admin.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			defer w.remove(t, pod)
			err := w.mustAs(t, agent).Delete(t.Context(), pod, kube.DryRunAll)
			if p.let && err != nil || !p.let && !isRefusal(err, "the agent deletes only pods") {
				t.Errorf("it is deleted: %v, want %t", err, p.let)
			}
		})
	}
}
