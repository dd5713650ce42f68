package lending

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Remains names the namespaces of a consumer that still exist, and what Kubernetes says is left in them.
func TestRemains(t *testing.T) {
	mapped := func(name, consumer string, conditions ...corev1.NamespaceCondition) *corev1.Namespace {
		return &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: liqo.Of(consumer),
				Annotations: map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "a/b"}},
			Status: corev1.NamespaceStatus{Conditions: conditions},
		}
	}
	l := New(Options{Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(liqo.NewTenantNamespace("rome"),
		mapped("other-paris", "paris"),
		mapped("work-rome", "rome",
			corev1.NamespaceCondition{Type: corev1.NamespaceDeletionContentFailure,
				Status: corev1.ConditionFalse, Message: "all is deleted"},
			corev1.NamespaceCondition{Type: corev1.NamespaceContentRemaining,
				Status: corev1.ConditionTrue, Message: "pods. has 1 resource instances"},
		)).Build()})
	for consumer, want := range map[string]string{"rome": "namespace work-rome has not gone; pods. has 1 resource instances", "oslo": ""} {
		if said, err := l.Remains(t.Context(), consumer); err != nil || said != want {
			t.Errorf("of %s: %q, %v", consumer, said, err)
		}
	}
	long := corev1.NamespaceCondition{Type: corev1.NamespaceDeletionDiscoveryFailure,
		Status: corev1.ConditionTrue, Message: strings.Repeat("unable to retrieve the complete list of server APIs ", 12)}
	for i := range 64 {
		if err := l.options.Client.Create(t.Context(), mapped(fmt.Sprintf("many-%d", i), "oslo", long)); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := l.Remains(t.Context(), "oslo"); err != nil ||
		!strings.HasPrefix(said, "namespace many-0 has not gone; unable") || len(said) > 32<<10 {
		t.Errorf("of 64 namespaces: %d bytes, which no condition holds, %v", len(said), err)
	}
}
