package agent

import (
	"testing"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// A peering whose end takes long names the namespaces of the consumer that stay, and what Kubernetes says is left in them.
func TestRemains(t *testing.T) {
	mapped := func(name, consumer string, conditions ...corev1.NamespaceCondition) *corev1.Namespace {
		return &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: liqo.Of(consumer), Annotations: map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "a/b"}},
			Status:     corev1.NamespaceStatus{Conditions: conditions},
		}
	}
	l := &lend{Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(liqo.NewTenantNamespace("rome"), mapped("other-paris", "paris"),
		mapped("work-rome", "rome",
			corev1.NamespaceCondition{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Message: "all is deleted"},
			corev1.NamespaceCondition{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "pods. has 1 resource instances"},
		)).Build()}
	for consumer, want := range map[string]string{"rome": "namespace work-rome has not gone; pods. has 1 resource instances", "oslo": ""} {
		if said, err := l.remains(t.Context(), consumer); err != nil || said != want {
			t.Errorf("of %s: %q, %v", consumer, said, err)
		}
	}
}
