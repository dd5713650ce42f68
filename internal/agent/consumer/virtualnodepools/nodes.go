package virtualnodepools

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// readPods reads the pods and claims of the namespaces.
func (c *Controller) readPods(ctx context.Context,
	pool *api.VirtualNodePool, namespaces []string, out *children) error {
	poolName := pool.Name // pool is written while other goroutines call changed
	changed := func() { c.changed.AddAfter("", poolName, gather) }
	for _, name := range namespaces {
		in, err := c.options.Pods.In(ctx, name, changed)
		if err != nil {
			return err
		}
		var list corev1.PodList
		if err := in.List(ctx, &list, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		for i := range list.Items {
			out.seen.Pods = append(out.seen.Pods, &list.Items[i])
			if err := c.findNominated(ctx, list.Items[i].Status.NominatedNodeName, out); err != nil {
				return err
			}
		}
		claims, err := offload.BoundClaims(ctx, in, "", []string{name})
		if err != nil {
			return err
		}
		out.claims = append(out.claims, claims...)
		for _, claim := range claims {
			out.seen.Volumes[claim.Name] = claim.Node
		}
	}
	return nil
}

// findNominated notes whether the node exists that a pod is nominated for.
func (c *Controller) findNominated(ctx context.Context, node string, out *children) error {
	if _, known := out.seen.Nodes[node]; known || node == "" {
		return nil
	}
	err := c.options.Client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{})
	out.seen.Nodes[node] = err == nil
	return client.IgnoreNotFound(err)
}

// readCustomers reads what a hub's customers use of a virtual node, and their pods there if it is not Ready.
func (c *Controller) readCustomers(ctx context.Context,
	p *vnp.Provider, namespaces []string, out *children) error {
	if p.Used = amounts.Clamp(c.options.Pods.UsedOn(p.Node)); p.State == vnp.Ready {
		return nil
	}
	var list corev1.PodList
	err := c.options.Reader.List(ctx, &list, client.MatchingFields{"spec.nodeName": p.Node})
	for i := range list.Items {
		if pod := &list.Items[i]; !slices.Contains(namespaces, pod.Namespace) &&
			kubeobject.ControllerKind(pod) != "DaemonSet" {
			out.seen.Pods = append(out.seen.Pods, pod)
		}
	}
	return err
}
