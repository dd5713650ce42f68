package cluster

import (
	"cmp"
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// home is the agent's namespace; nil: it is not known yet.
type home struct {
	objects   kube.Reader
	namespace atomic.Pointer[string]
}

// AgentNamespace returns the namespace of the cluster's agent: that in which a session found it, else that of the agent's
// record. If the user may not read this, or there is none, it is [api.Namespace].
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

// find reads the agent's record. Errors: those of the API server, but that the user may not read it, or that there is none;
// then it is [api.Namespace] as far as is known.
func (h *home) find(ctx context.Context) (namespace string, _ error) {
	record, err := readRecord(ctx, h.objects)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		err = nil
	}
	return cmp.Or(record.Namespace, api.Namespace), err
}

// readRecord returns which agent the cluster has, as the agent records. Errors: those of the API server.
func readRecord(ctx context.Context, objects kube.Reader) (api.RecordedAgent, error) {
	var record api.Agent
	err := objects.Get(ctx, kube.ObjectKey{Name: api.AgentName}, &record)
	return record.Status, err
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

// ClusterName returns the ID of the cluster, as objects that only its agent writes name it: the agent's record, or an
// instruction of the user's namespaces. It is empty if the user may read none, or there is none. The agent's status has it,
// too.
func (c *Client) ClusterName(ctx context.Context) (name string) {
	if record, err := readRecord(ctx, c.objects); err == nil && record.Cluster != "" {
		return record.Cluster
	}
	_ = c.EachInstruction(ctx, func(i *api.ReservationInstruction) { name = cmp.Or(name, i.Spec.Consumer) })
	return name
}
