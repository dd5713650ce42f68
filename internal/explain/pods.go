package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Pod says in one word how a pod stands, and why it cannot run; why is empty if it runs, starts or has ended.
func Pod(p *corev1.Pod) (word, why string) {
	s := p.Status
	switch {
	case p.DeletionTimestamp != nil:
		return "Ends", ""
	case s.Phase == corev1.PodSucceeded:
		return "Done", ""
	case s.Phase == corev1.PodFailed:
		return "Failed", Reason(s.Reason, s.Message)
	case s.Reason != "": // Liqo shows so that the provider does not take the pod
		return "Waits", Reason(s.Reason, s.Message)
	case p.Spec.NodeName == "":
		return "Waits", notTrue(s, corev1.PodScheduled)
	}
	if why := waitingContainer(s); why != "" {
		return "Waits", why
	}
	if s.Phase == corev1.PodPending {
		return "Starts", ""
	}
	if why := notTrue(s, corev1.PodReady); why != "" {
		return "Not ready", why
	}
	return "Runs", ""
}

// notTrue returns why a condition of a pod does not hold; empty if it holds, or is not known.
func notTrue(s corev1.PodStatus, of corev1.PodConditionType) string {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == of && c.Status == corev1.ConditionFalse
	})
	if i < 0 {
		return ""
	}
	return Reason(s.Conditions[i].Reason, s.Conditions[i].Message)
}

// waitingContainer returns why the first container waits that cannot start; empty if none does.
func waitingContainer(s corev1.PodStatus) string {
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		w := c.State.Waiting
		if w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return "container " + c.Name + ": " + Reason(w.Reason, w.Message)
		}
	}
	return ""
}
