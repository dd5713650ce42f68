package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Client reads and writes the objects of a cluster as its user, and asks the questions of its agent. Several
// goroutines may use it. Close it.
type Client struct {
	// Client asks the agent for the namespaces, and whole for the cluster.
	*client.Client
	whole      *client.Client
	askers     []*Asker
	objects    kube.Client // as the user
	namespaces []string    // to list; "" is all
	home       *home
}

// New makes a client of a cluster for some namespaces or, without any, for the whole cluster. It calls nothing yet.
func New(config *rest.Config, namespaces ...string) (*Client, error) {
	questions, some, err := NewAsker(config, namespaces...)
	if err != nil {
		return nil, err
	}
	whole, all, err := NewAsker(config)
	if err != nil {
		return nil, err
	}
	objects, err := NewObjects(config)
	if err != nil {
		return nil, err
	}
	c := At(questions, objects, namespaces...)
	c.whole, c.askers = whole, []*Asker{some, all}
	return c, nil
}

// NewObjects makes a client of the kinds of package api, of Events and of pods. It calls nothing yet.
func NewObjects(config *rest.Config) (kube.Client, error) {
	known := runtime.NewScheme()
	if err := api.AddToScheme(known); err != nil {
		return nil, err
	}
	known.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Event{}, &corev1.EventList{}, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(known, corev1.SchemeGroupVersion)
	return kube.New(unlimited(config), kube.Options{Scheme: known, Mapper: mapper(known)})
}

// At makes a client that asks the agent at its own listener, and has objects from an API server for some namespaces or,
// without any, for the whole cluster. objects may be nil: what needs objects is then Invalid.
func At(listener *client.Client, objects kube.Client, namespaces ...string) *Client {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	if objects == nil {
		objects = none{}
	}
	return &Client{Client: listener, whole: listener, namespaces: namespaces, home: &home{objects: objects},
		objects: kube.WithFieldValidation(objects, metav1.FieldValidationStrict)}
}

// Close deletes the user's sessions. Errors: those of the API server.
func (c *Client) Close(ctx context.Context) (err error) {
	for _, asker := range c.askers {
		err = errors.Join(err, asker.Close(ctx))
	}
	return err
}

// Now returns the agent's time, as its last answer told it: this machine's clock may be wrong.
func (c *Client) Now() time.Time {
	skew := c.Skew()
	if skew.Abs() < 2*time.Second { // the time of an answer has whole seconds
		skew = 0
	}
	return time.Now().Add(skew)
}

// Diagnose returns the problems of the cluster. It needs a right to ask for the whole cluster.
func (c *Client) Diagnose(ctx context.Context) (api.Diagnosis, error) { return c.whole.Diagnose(ctx) }

// Audit returns what another cluster can do here. It needs a right to ask for the whole cluster.
func (c *Client) Audit(ctx context.Context, other string) (api.Audit, error) {
	return c.whole.Audit(ctx, other)
}

// Brokers returns the brokers of the cluster. It needs a right to ask for the whole cluster.
func (c *Client) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return c.whole.Brokers(ctx)
}

// PlanVirtualNodePool returns the status that a VirtualNodePool would have. It needs a right to ask for the whole
// cluster.
func (c *Client) PlanVirtualNodePool(ctx context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	return c.whole.PlanVirtualNodePool(ctx, name, spec)
}

// PreviewSharing returns what a SharingPolicy would change. It needs a right to ask for the whole cluster.
func (c *Client) PreviewSharing(ctx context.Context, spec api.Sharing) (api.SharingPreview, error) {
	return c.whole.PreviewSharing(ctx, spec)
}

// list lists the objects of a kind in each namespace of the client, and has do look at each list. With agents, it also
// lists those in the agent's namespace, if the user may. do changes no object: a watch may have it, too. Errors: those of
// do; those of the API server.
func list[T any, L interface {
	*T
	kube.ObjectList
}](ctx context.Context, c *Client, agents bool, do func(namespace string, all L) error) error {
	listed := c.namespaces
	if agents && !slices.Contains(listed, metav1.NamespaceAll) {
		if home := c.AgentNamespace(ctx); !slices.Contains(listed, home) {
			listed = append(slices.Clone(listed), home)
		}
	}
	for i, namespace := range listed {
		all := L(new(T))
		err := c.objects.List(ctx, all, kube.InNamespace(namespace), kube.UnsafeDisableDeepCopy)
		if apierrors.IsForbidden(err) && i >= len(c.namespaces) {
			continue
		}
		if err == nil {
			err = do(namespace, all)
		}
		if err != nil {
			return kubeobject.Error(err)
		}
	}
	return nil
}

// mapper knows our kinds, so that nothing is discovered.
func mapper(known *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	for kind := range known.KnownTypes(api.GroupVersion) {
		scope := meta.RESTScopeNamespace
		switch kind {
		case "Agent", "SharingPolicy", "VirtualNodePool", "ClusterSession":
			scope = meta.RESTScopeRoot
		}
		m.Add(api.GroupVersion.WithKind(kind), scope)
	}
	return m
}
