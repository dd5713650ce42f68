package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Events returns the Events about an object, in no order. An API server keeps Events for an hour.
func (c *Client) Events(ctx context.Context, kind, namespace, name string) ([]corev1.Event, error) {
	var all corev1.EventList
	err := c.objects.List(ctx, &all, kube.InNamespace(namespace),
		kube.MatchingFields{"involvedObject.kind": kind, "involvedObject.name": name})
	return all.Items, kubeobject.Error(err)
}
