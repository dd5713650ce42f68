package cluster

import (
	"cmp"
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// home is the agent's namespace; nil: it is not known yet.
type home struct {
	objects   kube.Reader
	namespace atomic.Pointer[string]
}

// AgentNamespace returns the namespace of the cluster's agent: that in which a session found it, else that of an object
// which is in the agent's namespace alone. If the user may list none of these in all namespaces, it is
// [api.Namespace].
func (c *Client) AgentNamespace(ctx context.Context) string {
	for _, asker := range c.askers {
		if namespace := asker.home.Load(); namespace != nil {
			return *namespace
		}
	}
	if known := c.home.namespace.Load(); known != nil {
		return *known
	}
	namespace, err := c.home.find(ctx)
	if err == nil { // else the next call looks again
		c.home.namespace.Store(&namespace)
	}
	return namespace
}

// find looks for an object that is in the agent's namespace alone. Errors: those of the API server, but that the user may
// not list the kind; then it is [api.Namespace] as far as is known.
func (h *home) find(ctx context.Context) (namespace string, failed error) {
	for _, all := range []kube.ObjectList{&api.AdvertisementList{}, &api.PeerList{}, &api.BrokerList{}} {
		if err := h.objects.List(ctx, all, kube.Limit(1)); err != nil && !apierrors.IsForbidden(err) {
			failed = err
		}
		_ = meta.EachListItem(all, func(o runtime.Object) error {
			found, err := meta.Accessor(o)
			if err == nil {
				namespace = cmp.Or(namespace, found.GetNamespace())
			}
			return err
		})
		if namespace != "" {
			return namespace, nil
		}
	}
	return api.Namespace, failed
}

// WithAgentIn returns the client with the agent's namespace, for a caller who knows it. Nothing is looked for then.
func (c *Client) WithAgentIn(namespace string) *Client {
	out := *c
	out.home = &home{objects: c.home.objects}
	out.home.namespace.Store(&namespace)
	return &out
}

// own returns the name of an object in the agent's namespace.
func (c *Client) own(ctx context.Context, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.AgentNamespace(ctx), Name: name}
}

// ClusterName returns the ID of the cluster, as objects that only its agent writes name it: its Advertisement, or an
// instruction, which names both sides. It is empty if the user may list none, or there is none. The agent's status has
// it, too.
func (c *Client) ClusterName(ctx context.Context) (name string) {
	if ad, err := c.Advertisement(ctx); err == nil && ad.Status.Cluster != "" {
		return ad.Status.Cluster
	}
	_ = c.EachInstruction(ctx, func(i *api.ReservationInstruction) { name = cmp.Or(name, i.Spec.Consumer) })
	if name != "" {
		return name
	}
	lent, _ := c.Lent(ctx)
	for _, i := range lent {
		name = cmp.Or(name, i.Spec.Provider)
	}
	return name
}
