package policies

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// The agent proves each policy by a dry run. One whose binding is gone does not deny, which the agent says, as long as
// the list of policies still looks right. A Peering that is no proof is nobody's business.
func TestEachPolicyIsProven(t *testing.T) {
	w := start(t)
	kind, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bourse.dev_peerings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Apply(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	prove := func(known kube.Reader) error {
		return (&posture.Policies{Known: known, Reader: w.keeper, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo"}).InForce(t.Context())
	}
	w.eventually(t, "each policy is proven", func() error { return prove(w.admin) })
	ordinary := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "rome.provider"},
		Spec: api.PeeringSpec{Cluster: "rome", Role: api.RoleProvider}}
	if err := w.keeper.Create(t.Context(), ordinary, kube.DryRunAll); err != nil {
		t.Errorf("an ordinary Peering: %v", err)
	}

	const name = "bourse-pods"
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	if err := w.admin.Get(t.Context(), kube.ObjectKey{Name: name}, &binding); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Delete(t.Context(), &binding); err != nil {
		t.Fatal(err)
	}
	again := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: binding.Spec}
	w.eventually(t, "a policy does not deny", func() error {
		err := prove(stale{w.admin, again})
		if err == nil || !strings.Contains(err.Error(), "the admission policy "+name+" does not deny yet") {
			return fmt.Errorf("without its binding: %w", err)
		}
		return nil
	})
	if err := w.admin.Create(t.Context(), again.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "each policy is proven again", func() error { return prove(w.admin) })
}

// stale reads a binding that is there no more, as an agent's cache would for a moment.
type stale struct {
	kube.Reader
	binding *admissionv1.ValidatingAdmissionPolicyBinding
}

func (s stale) Get(ctx context.Context, key kube.ObjectKey, into kube.Object, how ...kube.GetOption) error {
	if o, is := into.(*admissionv1.ValidatingAdmissionPolicyBinding); is && key.Name == s.binding.Name {
		s.binding.DeepCopyInto(o)
		return nil
	}
	return s.Reader.Get(ctx, key, into, how...)
}
