package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// mostPods is how many pods of a node are read in one namespace.
const mostPods = 200

// PodsOn returns the pods of a namespace on a node, at most 200. With the node "" they are those that wait for a node. more
// reports that there are others. It reads from the API server: nothing watches pods. Errors: Forbidden if the user may not
// list them.
func (c *Client) PodsOn(ctx context.Context, namespace, node string) (pods []corev1.Pod, more bool, err error) {
	fields := kube.MatchingFields{"spec.nodeName": node}
	if node == "" {
		fields["status.phase"] = string(corev1.PodPending)
	}
	var all corev1.PodList
	err = c.objects.List(ctx, &all, kube.InNamespace(namespace), fields, kube.Limit(mostPods))
	more = all.Continue != "" || len(all.Items) > mostPods
	return all.Items[:min(len(all.Items), mostPods)], more, kubeobject.Error(err)
}
