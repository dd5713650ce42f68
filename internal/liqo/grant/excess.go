package grant

import (
	"context"
	"errors"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Excess says what of an account's pods is too much.
type Excess struct {
	// User is the slice's user, who made the pods.
	User string
	// Keep is what they may request together. A resource that it does not name is not looked at.
	Keep api.Resources
	// Patience is how long a deleted pod has to end, however long its own grace is. Then it is killed.
	Patience time.Duration
}

// TakeBack deletes the pods that do not fit any more, and returns how many. Liqo's quota, which follows the grant, does not let them come back.
// It finds pods whose ShadowPod is gone, too: Liqo counts those no more, and they run until their own grace is over, or for ever if they were orphaned.
func (e Excess) TakeBack(ctx context.Context, r client.Reader, w client.Writer, now time.Time) (taken int, err error) {
	var shadows offv1beta1.ShadowPodList
	var pods corev1.PodList
	made := client.MatchingLabels{consts.CreatorLabelKey: e.User}
	err = errors.Join(r.List(ctx, &shadows, made), r.List(ctx, &pods, made, client.MatchingLabels(liqo.FromShadowPods())))
	if err != nil {
		return 0, err
	}
	shadow, pod := map[client.ObjectKey]*offv1beta1.ShadowPod{}, map[client.ObjectKey]*corev1.Pod{}
	var running []liqo.Running
	for i := range shadows.Items {
		shadow[client.ObjectKeyFromObject(&shadows.Items[i])] = &shadows.Items[i]
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		pod[client.ObjectKeyFromObject(p)] = p
		s := shadow[client.ObjectKeyFromObject(p)]
		if !over(p.Status.Phase) {
			running = append(running, liqo.Running{ObjectMeta: p.ObjectMeta, Spec: &p.Spec, First: p.DeletionTimestamp != nil || s == nil || s.DeletionTimestamp != nil})
		}
	}
	for key, s := range shadow {
		if pod[key] == nil && s.DeletionTimestamp == nil && !over(s.Status.Phase) {
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

// end deletes a pod whose ShadowPod is going or gone, and lets it be killed once it has had its time. It leaves a second, and not none: then
// the pod stays in sight until its node has killed it.
func (e Excess) end(ctx context.Context, w client.Writer, p *corev1.Pod, now time.Time) (did bool, err error) {
	const kill = 1
	same := client.Preconditions{UID: &p.UID}
	switch {
	case p.DeletionTimestamp == nil && e.Patience > 0:
		return true, w.Delete(ctx, p, same)
	case p.DeletionTimestamp == nil:
	case now.Before(begun(p).Add(e.Patience)), p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds <= kill:
		return false, nil
	}
	return true, w.Delete(ctx, p, same, client.GracePeriodSeconds(kill))
}

// begun is when the deletion of a pod began: Kubernetes notes when its grace is over.
func begun(p *corev1.Pod) time.Time {
	at := p.DeletionTimestamp.Time
	if g := p.DeletionGracePeriodSeconds; g != nil {
		at = at.Add(-time.Duration(*g) * time.Second)
	}
	return at
}

func over(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
