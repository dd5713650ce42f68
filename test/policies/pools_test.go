package policies

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The requests of a VirtualNodePool are the agent's. Kubernetes deletes them with their pool; others
// are sent to the pool.
func TestRequestsOfPools(t *testing.T) {
	w := start(t)
	w.ourKinds(t)
	child := func() *api.ResourceRequest {
		return &api.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "burst-aaaaa",
				Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}},
			Spec: api.ResourceRequestSpec{Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}}},
		}
	}
	plain := child()
	plain.Name, plain.Labels = "plain", nil
	w.eventually(t, "the kind is served", func() error { return w.admin.Create(t.Context(), plain, kube.DryRunAll) })
	const says = "kubectl edit vnp burst"
	w.eventually(t, "others are refused", func() error {
		if err := w.admin.Create(t.Context(), child(), kube.DryRunAll); !isRefusal(err, says) {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	by := func(name string) kube.Client {
		return w.mustAs(t, account{name, rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}})
	}
	agent, made := by("system:serviceaccount:bourse:bourse-agent"), child()
	if err := agent.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Delete(t.Context(), made) }()
	larger := made.DeepCopy()
	larger.Spec.Resources["cpu"] = resource.MustParse("8")
	bare := made.DeepCopy()
	bare.Labels = nil
	for what, change := range map[string]*api.ResourceRequest{"larger": larger, "without its label": bare} {
		if err := w.admin.Patch(t.Context(), change, kube.MergeFrom(made), kube.DryRunAll); !isRefusal(err, "of a VirtualNodePool") {
			t.Errorf("another makes it %s: %v", what, err)
		}
	}
	if err := w.admin.Delete(t.Context(), made, kube.DryRunAll); !isRefusal(err, says) {
		t.Errorf("another deletes it: %v", err)
	}
	for _, name := range []string{"generic-garbage-collector", "namespace-controller"} {
		if err := by("system:serviceaccount:kube-system:"+name).Delete(t.Context(), made, kube.DryRunAll); err != nil {
			t.Errorf("%s does not delete it: %v", name, err)
		}
	}
	if err := agent.Patch(t.Context(), larger, kube.MergeFrom(made), kube.DryRunAll); err != nil {
		t.Errorf("the agent does not change it: %v", err)
	}
}
