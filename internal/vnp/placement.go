package vnp

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// placedWithin is how long a provider may take to place a pod that is bound to its virtual node.
	placedWithin = 30 * time.Second
	// movesEvery is how often pods that a provider cannot place are moved off its virtual node: the scheduler
	// may put them there again.
	movesEvery = 5 * time.Minute
)

// unplaced reports whether a pod is bound to a virtual node, and the provider finds no node for it.
func (r *round) unplaced(one *corev1.Pod) bool {
	since, is := unschedulable(one)
	if !is || one.Spec.NodeName == "" || one.Status.Phase != corev1.PodPending {
		return false
	}
	if at := since.Add(placedWithin); r.o.Now.Before(at) {
		r.LookAgain(at)
		return false
	}
	return true
}

// moves reports whether a pod that its provider cannot place moves once there is room. A pod without a
// controller stays: nothing would make it again.
func (r *round) moves(one *corev1.Pod) bool {
	return r.unplaced(one) && metav1.GetControllerOf(one) != nil && r.volumesAt(one) == ""
}

// moveUnplaced plans the eviction of pods that their provider cannot place and for which another virtual
// node has room. They never ran.
func (r *round) moveUnplaced(waits map[types.UID]bool) {
	for _, one := range r.providers {
		if at := r.moved[one.Node].Add(movesEvery); r.o.Now.Before(at) {
			continue
		}
		for _, p := range r.on[one.Node] {
			if !r.moves(p.Pod) || waits[p.UID] {
				continue
			}
			r.Evict = append(r.Evict, p.Pod)
			r.moved[one.Node] = r.o.Now
		}
	}
}

// volumesAt returns the node where a pod's volumes are, empty if it has none.
func (r *round) volumesAt(one *corev1.Pod) string {
	for _, v := range one.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if node := r.o.Volumes[one.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]; node != "" {
			return node
		}
	}
	return ""
}

// mayRun reports whether a pod may run on the virtual node of a provider. A new one has no node yet.
func (r *round) mayRun(one *corev1.Pod, at *Provider) bool {
	if node := r.volumesAt(one); node != "" && at.Node != node {
		return false
	}
	if at.Node != "" && at.Node == one.Spec.NodeName { // it goes, or its provider cannot place it
		return false
	}
	return allowed(one, r.node(at))
}
