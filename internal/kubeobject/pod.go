package kubeobject

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HasEnded reports whether a pod in this phase has ended: it uses nothing more.
func HasEnded(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// ControllerKind returns the kind of the controller that owns an object, empty if none does.
func ControllerKind(o metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return owner.Kind
	}
	return ""
}
