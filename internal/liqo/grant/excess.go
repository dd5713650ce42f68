package grant

import (
	"context"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// TakeBack deletes the pods of a slice's user that do not fit into keep any more, and returns how many. Liqo's quota, which
// follows the grant, does not let them come back.
func TakeBack(ctx context.Context, r client.Reader, w client.Writer, user string, keep api.Resources) (int, error) {
	var list offv1beta1.ShadowPodList
	if err := r.List(ctx, &list, client.MatchingLabels{consts.CreatorLabelKey: user}); err != nil {
		return 0, err
	}
	var running []liqo.Running
	for i := range list.Items {
		p := &list.Items[i]
		if over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed; p.DeletionTimestamp == nil && !over {
			running = append(running, liqo.Running{ObjectMeta: p.ObjectMeta, Spec: &p.Spec.Pod})
		}
	}
	excess := liqo.Excess(running, keep)
	for _, p := range excess {
		pod := &offv1beta1.ShadowPod{}
		pod.Namespace, pod.Name = p.Namespace, p.Name
		if err := w.Delete(ctx, pod, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return 0, err
		}
	}
	return len(excess), nil
}
