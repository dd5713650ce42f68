package offload

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
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
	var pods corev1.PodList
	if err := e.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return "", err
	}
	var running []liqo.Running
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			running = append(running, liqo.Running{ObjectMeta: p.ObjectMeta,
				Spec: &p.Spec, First: slices.Contains(leaving, p.Namespace)})
		}
	}
	excess, held := liqo.Excess(running, keep), ""
	for _, p := range excess {
		if p.DeletionTimestamp != nil && !force {
			continue
		}
		if err := e.evict(ctx, p, force); apierrors.IsTooManyRequests(err) {
			held = "; a PodDisruptionBudget delays some"
		} else if client.IgnoreNotFound(err) != nil {
			return "", err
		}
	}
	if len(excess) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d pods of virtual node %s no longer fit and are being evicted%s", len(excess), node, held), nil
}

// Empty evicts the pods of a virtual node for which leaves returns true, but not those of DaemonSets,
// which would come again, nor those that have ended. force deletes them at once. The message names
// the number of pods that are left; empty if none.
func (e *Evictor) Empty(ctx context.Context, node string, leaves func(*corev1.Pod) bool,
	force bool) (message string, err error) {
	var pods corev1.PodList
	if err := e.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return "", err
	}
	left, held := 0, ""
	for _, p := range pods.Items {
		owner := metav1.GetControllerOf(&p)
		if !leaves(&p) || owner != nil && owner.Kind == "DaemonSet" ||
			p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		left++
		if p.DeletionTimestamp != nil && !force {
			continue
		}
		if err := e.evict(ctx, liqo.Running{ObjectMeta: p.ObjectMeta}, force); apierrors.IsTooManyRequests(err) {
			held = "; a PodDisruptionBudget delays some"
		} else if client.IgnoreNotFound(err) != nil {
			return "", err
		}
	}
	if left == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d pods leave virtual node %s%s", left, node, held), nil
}

// Clear deletes all pods of a virtual node at once, because nobody will confirm that they ended.
func (e *Evictor) Clear(ctx context.Context, node string) error {
	var pods corev1.PodList
	if err := e.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if err := e.evict(ctx, liqo.Running{ObjectMeta: p.ObjectMeta}, true); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (e *Evictor) evict(ctx context.Context, p liqo.Running, force bool) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if force {
		return e.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	}
	return e.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
}

// selectedNode is Kubernetes' annotation on a claim whose volume was made on the node of its first pod.
const selectedNode = "volume.kubernetes.io/selected-node"

// BoundClaims lists the bound claims of namespaces whose volumes are at a virtual node.
func BoundClaims(ctx context.Context, r client.Reader, node string, namespaces []string) (claims []string, err error) {
	for _, namespace := range namespaces {
		var list corev1.PersistentVolumeClaimList
		if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, c := range list.Items {
			if c.Annotations[selectedNode] == node && c.Status.Phase == corev1.ClaimBound {
				claims = append(claims, c.Namespace+"/"+c.Name)
			}
		}
	}
	return claims, nil
}
