package offload

import (
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Of a virtual node that is not Ready the message says why, and never that its kubelet posts that it is ready.
func TestWhyAVirtualNodeIsNotReady(t *testing.T) {
	const ready = "The Liqo Virtual Kubelet is posting ready status"
	since := metav1.NewTime(time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC))
	for what, c := range map[string]struct {
		is   corev1.NodeCondition
		want string
	}{
		"silent": {corev1.NodeCondition{Status: corev1.ConditionUnknown, Reason: "KubeletReady", Message: ready,
			LastHeartbeatTime: since}, "its virtual kubelet has reported nothing since 2026-11-28T02:00:00Z"},
		"new": {corev1.NodeCondition{Status: corev1.ConditionUnknown}, "its virtual kubelet has not reported yet"},
		"stale": {corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "KubeletReady", Message: ready},
			"its condition Ready is False"},
		"says why": {corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
			Message: "The Liqo Virtual Kubelet is currently not ready"}, "The Liqo Virtual Kubelet is currently not ready"},
	} {
		c.is.Type = corev1.NodeReady
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c.is}}}
		s := &Slices{Client: fake.NewClientBuilder().WithObjects(node).Build()}
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		is, err := s.state(t.Context(), slice, nil)
		if want := "the virtual node is not Ready: " + c.want; err != nil || is.Message != want {
			t.Errorf("%s: %q, %v; want %q", what, is.Message, err, want)
		}
	}
}
