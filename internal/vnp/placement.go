package vnp

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// placedWithin is how long a provider may take to find a node for a pod that is bound to its virtual node.
	placedWithin = 30 * time.Second
	// acceptedWithin is how long it may take to accept such a pod. Liqo copies many pods one after the other.
	acceptedWithin = time.Minute
	// movesEvery is how often pods that a provider cannot place are moved off its virtual node: the scheduler
	// may put them there again.
	movesEvery = 5 * time.Minute
)

// unplaced reports whether a pod is bound to a virtual node, and does not get to run there: the provider finds
// no node for it, or refuses it.
func (r *planning) unplaced(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending {
		return false
	}
	since, ok := unschedulable(pod)
	at := since.Add(placedWithin)
	if !ok {
		since, ok = r.unaccepted(pod)
		at = since.Add(acceptedWithin)
	}
	if ok && r.o.Now.Before(at) {
		r.LookAgain(at)
		return false
	}
	return ok
}

// unaccepted returns since when a virtual node has a pod that its provider has not accepted. The status of such a
// pod is as the scheduler here left it: no kubelet has started it. Its provider may refuse it by a policy, or by
// Liqo's quota, which pods that have ended hold until they are deleted.
func (r *planning) unaccepted(pod *corev1.Pod) (since time.Time, waits bool) {
	i := slices.IndexFunc(r.providers, func(p Provider) bool { return p.Node == pod.Spec.NodeName && p.State == Ready })
	if i < 0 || pod.Status.StartTime != nil || len(pod.Status.ContainerStatuses) > 0 {
		return time.Time{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			if since = c.LastTransitionTime.Time; since.Before(r.providers[i].Since) {
				since = r.providers[i].Since
			}
			return since, true
		}
	}
	return time.Time{}, false
}

// noteUnplaced counts the pods that are bound and do not run: they count if room elsewhere helps them.
func (r *planning) noteUnplaced() {
	for _, provider := range r.providers {
		for _, p := range r.on[provider.Node] {
			switch {
			case !r.unplaced(p.Pod):
			case r.moves(p.Pod):
				r.Counted++
			default:
				r.noteUncounted(p.Pod, NotPlaced, "it is bound to virtual node "+provider.Node+
					", and its provider does not run it: see its Events; "+
					"it stays there, because it has no controller, or for its volumes")
			}
		}
	}
}

// moves reports whether a pod that its provider cannot place moves once there is room. A pod without a
// controller stays: nothing would make it again.
func (r *planning) moves(pod *corev1.Pod) bool {
	return r.unplaced(pod) && metav1.GetControllerOf(pod) != nil && r.volumesAt(pod) == ""
}

// moveUnplaced plans the eviction of pods that their provider cannot place and for which another virtual
// node has room. They never ran.
func (r *planning) moveUnplaced(waits map[types.UID]bool) {
	for _, provider := range r.providers {
		if at := r.moved[provider.Node].Add(movesEvery); r.o.Now.Before(at) {
			continue
		}
		for _, p := range r.on[provider.Node] {
			if !r.moves(p.Pod) || waits[p.UID] {
				continue
			}
			r.Evict = append(r.Evict, p.Pod)
			r.moved[provider.Node] = r.o.Now
		}
	}
}

// volumesAt returns the node where a pod's volumes are, empty if it has none.
func (r *planning) volumesAt(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if node := r.o.Volumes[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]; node != "" {
			return node
		}
	}
	return ""
}

// mayRun reports whether a pod may run on the virtual node of a provider. A new one has no node yet.
func (r *planning) mayRun(pod *corev1.Pod, provider *Provider) bool {
	if node := r.volumesAt(pod); node != "" && provider.Node != node {
		return false
	}
	if provider.Node != "" && provider.Node == pod.Spec.NodeName { // it goes, or its provider cannot place it
		return false
	}
	return allowed(pod, r.node(provider))
}
