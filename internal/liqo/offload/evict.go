package offload

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Evictor removes pods from virtual nodes whose reservation shrinks or ends. Reader must read from
// the API server; no cache of pods is needed for these rare reads.
type Evictor struct {
	Reader client.Reader
	client.Client
}

// Fit evicts pods of a virtual node until the rest fits into keep. It respects PodDisruptionBudgets,
// and starts with pods in the leaving namespaces. force deletes the pods at once, because the
// provider has deleted them already. The message names the number of pods left to evict; empty if none.
func (e *Evictor) Fit(ctx context.Context, node string, keep api.Resources,
	leaving []string, force bool) (message string, err error) {
	excess, err := e.findExcess(ctx, node, keep, leaving)
	if err != nil || len(excess) == 0 {
		return "", err
	}
	held, err := e.evictAll(ctx, excess, force)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d pods of virtual node %s no longer fit and are being evicted%s", len(excess), node, held), nil
}

// FitNamespace evicts pods of a namespace from a virtual node that is closed to it, until the rest of its pods fits into
// keep. Pods of DaemonSets go, too: they are not placed there again. It respects PodDisruptionBudgets; force deletes
// the pods at once.
func (e *Evictor) FitNamespace(ctx context.Context, node string, keep api.Resources, namespace string,
	force bool) error {
	pods, err := e.list(ctx, node)
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return kubeobject.HasEnded(p.Status.Phase) || p.Namespace != namespace
	})
	_, err = e.evictAll(ctx, liqo.Excess(runningOf(pods, nil), keep), force)
	return err
}

// evictAll evicts pods, and says if a PodDisruptionBudget delays some.
func (e *Evictor) evictAll(ctx context.Context, pods []liqo.Running, force bool) (held string, err error) {
	for i := range pods {
		if delayed, err := e.Evict(ctx, &pods[i], force); err != nil {
			return "", err
		} else if delayed {
			held = budgetDelays
		}
	}
	return held, nil
}

const budgetDelays = "; a PodDisruptionBudget delays some"

// Fits reports whether the pods of a virtual node fit into a size. The provider counts pods of DaemonSets, too, in
// namespaces that are offloaded; it never gets the others. alone says that no pods count but those of the namespaces.
func (e *Evictor) Fits(ctx context.Context, node string, size api.Resources, offloaded []string,
	alone bool) (bool, error) {
	pods, err := e.list(ctx, node)
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return kubeobject.HasEnded(p.Status.Phase) || !slices.Contains(offloaded, p.Namespace) &&
			(alone || kubeobject.ControllerKind(&p) == "DaemonSet")
	})
	return err == nil && len(liqo.Excess(runningOf(pods, nil), size)) == 0, err
}

func (e *Evictor) findExcess(ctx context.Context, node string, keep api.Resources,
	leaving []string) ([]liqo.Running, error) {
	pods, err := e.Remaining(ctx, node)
	return liqo.Excess(runningOf(pods, leaving), keep), err
}

// runningOf returns pods as liqo.Excess takes them. Those of the leaving namespaces go first.
func runningOf(pods []corev1.Pod, leaving []string) (running []liqo.Running) {
	for _, p := range pods {
		running = append(running, liqo.Running{ObjectMeta: p.ObjectMeta,
			Spec: &p.Spec, First: slices.Contains(leaving, p.Namespace)})
	}
	return running
}

// Empty evicts the remaining pods of a virtual node for which leaves returns true. force deletes them
// at once. The message names the number of pods that are left; empty if none.
func (e *Evictor) Empty(ctx context.Context, node string, leaves func(*corev1.Pod) bool,
	force bool) (message string, err error) {
	pods, err := e.Remaining(ctx, node)
	if err != nil {
		return "", err
	}
	left, held := 0, ""
	for _, p := range pods {
		if !leaves(&p) {
			continue
		}
		left++
		if delayed, err := e.Evict(ctx, &p, force); err != nil {
			return "", err
		} else if delayed {
			held = budgetDelays
		}
	}
	if left == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d pods leave virtual node %s%s", left, node, held), nil
}

// Remaining returns the pods of a virtual node that have not ended, without those of DaemonSets, which
// would come again.
func (e *Evictor) Remaining(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := e.list(ctx, node)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return kubeobject.HasEnded(p.Status.Phase) || kubeobject.ControllerKind(&p) == "DaemonSet"
	}), err
}

// Clear deletes all pods of a virtual node at once, because nobody will confirm that they ended.
func (e *Evictor) Clear(ctx context.Context, node string) error {
	pods, err := e.list(ctx, node)
	for i := range pods {
		if _, err := e.Evict(ctx, &pods[i], true); err != nil {
			return err
		}
	}
	return err
}

func (e *Evictor) list(ctx context.Context, node string) ([]corev1.Pod, error) {
	return kubeobject.ListPods(ctx, e.Reader, client.MatchingFields{"spec.nodeName": node})
}

// Evict evicts a pod that is not being deleted yet. force deletes it at once. delayed reports that a
// PodDisruptionBudget forbids the eviction for now. A pod that is gone, or has a namesake instead, is
// no error.
func (e *Evictor) Evict(ctx context.Context, p metav1.Object, force bool) (delayed bool, err error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.GetNamespace(), Name: p.GetName()}}
	same := &metav1.Preconditions{UID: ptr.To(p.GetUID())}
	switch {
	case force:
		err = e.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions(*same))
	case p.GetDeletionTimestamp() == nil:
		err = e.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			ObjectMeta: pod.ObjectMeta, DeleteOptions: &metav1.DeleteOptions{Preconditions: same},
		})
	}
	switch {
	case !force && apierrors.IsTooManyRequests(err):
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	}
	return false, err
}
