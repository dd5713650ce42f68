package grant

import (
	"context"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Excess finds and deletes an account's pods that exceed its grant.
type Excess struct {
	// User is the slice's user, who made the pods.
	User string
	// Keep bounds the sum of the pods' requests. Resources that it does not name are unbounded.
	Keep api.Resources
	// Patience is the time that a deleted pod has to end, if its own grace period is longer. Then
	// it is killed.
	Patience time.Duration
}

// TakeBack deletes the pods that no longer fit and returns their number. Liqo's quota, which follows
// the grant, keeps them from coming back. It also finds pods whose ShadowPod is gone: Liqo no longer
// counts them, but they run until their grace period is over, or forever if they were orphaned.
func (e Excess) TakeBack(ctx context.Context, r client.Reader, w client.Writer, now time.Time) (taken int, err error) {
	pods, shadows, err := made(ctx, r, e.User)
	if err != nil {
		return 0, err
	}
	shadow, pod := map[client.ObjectKey]*offv1beta1.ShadowPod{}, map[client.ObjectKey]*corev1.Pod{}
	var running []liqo.Running
	for i := range shadows {
		shadow[client.ObjectKeyFromObject(&shadows[i])] = &shadows[i]
	}
	for i := range pods {
		p := &pods[i]
		pod[client.ObjectKeyFromObject(p)] = p
		s := shadow[client.ObjectKeyFromObject(p)]
		if !kubeobject.HasEnded(p.Status.Phase) {
			ends := p.DeletionTimestamp != nil || s == nil || s.DeletionTimestamp != nil
			running = append(running, liqo.Running{ObjectMeta: p.ObjectMeta, Spec: &p.Spec, First: ends})
		}
	}
	for key, s := range shadow {
		if pod[key] == nil && s.DeletionTimestamp == nil && !kubeobject.HasEnded(s.Status.Phase) {
			running = append(running, liqo.Running{ObjectMeta: s.ObjectMeta, Spec: &s.Spec.Pod})
		}
	}
	for _, excess := range liqo.Excess(running, e.Keep) {
		key := client.ObjectKey{Namespace: excess.Namespace, Name: excess.Name}
		did := false
		switch p := pod[key]; {
		case excess.First:
			did, err = e.end(ctx, w, p, now)
		default:
			did, err = true, w.Delete(ctx, shadow[key], client.Preconditions{UID: &shadow[key].UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return taken, err
		}
		if did {
			taken++
		}
	}
	return taken, nil
}

// made returns the pods and ShadowPods of a slice's user, as far as their requests count.
//
// A ShadowPod exists before its pod. The pods are listed first, so a new pod is not taken for one whose ShadowPod is
// gone, and no pod is missed that a listed ShadowPod has got.
func made(ctx context.Context, r client.Reader, user string) (pods []corev1.Pod, shadows []offv1beta1.ShadowPod,
	err error) {
	by := client.MatchingLabels{consts.CreatorLabelKey: user}
	pods, err = kubeobject.ListPods(ctx, r, by, client.MatchingLabels(liqo.FromShadowPods()))
	if err != nil {
		return nil, nil, err
	}
	err = kubeobject.EachPage(ctx, r, func() *offv1beta1.ShadowPodList { return &offv1beta1.ShadowPodList{} },
		func(page *offv1beta1.ShadowPodList) {
			for _, s := range page.Items {
				kubeobject.KeepRequests(&s.ObjectMeta, &s.Spec.Pod)
				shadows = append(shadows, s)
			}
		}, by)
	return pods, shadows, err
}

// end deletes a pod whose ShadowPod is being deleted or gone, and kills it when its patience is over.
// The pod gets a grace period of one second, not zero, so that it exists until its node has killed it.
func (e Excess) end(ctx context.Context, w client.Writer, p *corev1.Pod, now time.Time) (did bool, err error) {
	const kill = 1
	same := client.Preconditions{UID: &p.UID}
	switch {
	case p.DeletionTimestamp == nil && e.Patience > 0:
		return true, w.Delete(ctx, p, same)
	case p.DeletionTimestamp == nil:
	case now.Before(begun(p).Add(e.Patience)), p.DeletionGracePeriodSeconds != nil &&
		*p.DeletionGracePeriodSeconds <= kill:
		return false, nil
	}
	return true, w.Delete(ctx, p, same, client.GracePeriodSeconds(kill))
}

// begun returns the start of a pod's deletion: Kubernetes records the end of its grace period.
func begun(p *corev1.Pod) time.Time {
	at := p.DeletionTimestamp.Time
	if g := p.DeletionGracePeriodSeconds; g != nil {
		at = at.Add(-time.Duration(*g) * time.Second)
	}
	return at
}
