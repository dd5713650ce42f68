package explain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/internal/explain"
)

func TestPodsSayWhyTheyCannotRun(t *testing.T) {
	at := func(node string, s corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: s}
	}
	not := func(of corev1.PodConditionType, reason, message string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: of, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
	}
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
	ending := at("rome-milan", corev1.PodStatus{Phase: corev1.PodRunning})
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	for _, c := range []struct {
		pod       *corev1.Pod
		word, why string
	}{
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodRunning}), "Runs", ""},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodSucceeded}), "Done", ""},
		{ending, "Ends", ""},
		{at("", corev1.PodStatus{Phase: corev1.PodPending, Conditions: not(corev1.PodScheduled, "Unschedulable", "0/2 nodes are available")}),
			"Waits", "Unschedulable: 0/2 nodes are available"},
		{at("", corev1.PodStatus{Phase: corev1.PodPending}), "Waits", ""},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodPending, Reason: "OffloadingBackOff"}), "Waits", "OffloadingBackOff"},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waits("ContainerCreating", "")}), "Starts", ""},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: waits("ImagePullBackOff", "no such image")}),
			"Waits", "container app: ImagePullBackOff: no such image"},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: not(corev1.PodReady, "ContainersNotReady", "app is not ready")}),
			"Not ready", "ContainersNotReady: app is not ready"},
		{at("rome-milan", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "too large"}), "Failed", "Evicted: too large"},
	} {
		if word, why := explain.Pod(c.pod); word != c.word || why != c.why {
			t.Errorf("%+v: %q, %q; want %q, %q", c.pod.Status, word, why, c.word, c.why)
		}
	}
}
