// Package install puts the agent or a broker into a cluster, and takes the agent out again, with the rights of
// the cluster's admin. It serves `bourse init`, `bourse broker init` and `bourse uninstall`; a running agent does
// not use it.
//
// Start at [Installation]: its Objects are what the chart bourse-agent renders, with the answers that the admin
// gave, and its Apply applies them. [Uninstall] is the way back.
package install

import (
	"bytes"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/charts"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/payload"
)

const (
	// connectorPort is the port of the connector in a pod.
	connectorPort = 7444
	// liqoNamespace is where the rendered roles expect Liqo.
	liqoNamespace = "liqo"

	// Annotations of what Helm and Argo CD installed.
	helmRelease, helmNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
	argoTracking               = "argocd.argoproj.io/tracking-id"
)

// Installation is what `bourse init` puts into a cluster, besides what the chart bourse-base does: the agent and its
// rights, with the answers of its admin.
type Installation struct {
	Namespace string
	Image     string
	// Liqo gives the agent its rights where Liqo is.
	Liqo bool
	// Join is the join token. Empty: the cluster has joined before.
	Join string
	// Args are arguments of the agent besides those that the chart renders by default.
	Args []string
	// Connector makes the agent listen for clusters that know its key.
	Connector bool
	// Sharing is the SharingPolicy. Nil: the cluster shares nothing.
	Sharing *api.Sharing
	// Gathers is the VirtualNodePool Upstream, of what a hub borrows. Nil: the cluster is no hub.
	Gathers *api.VirtualNodePoolSpec
}

// Upstream is the name of the VirtualNodePool of a hub.
const Upstream = "upstream"

// Objects returns all objects, in the order in which Apply applies them: those of the chart, and between them what
// the admin answered.
func (i Installation) Objects() []client.Object {
	out := []client.Object{namespace(i.Namespace)}
	if i.Join != "" {
		out = append(out, JoinSecret(i.Namespace, i.Join))
	}
	out = append(out, decodeAll(charts.AgentRights, i.Namespace)...)
	if i.Liqo {
		out = append(out, decodeAll(charts.AgentLiqo, i.Namespace)...)
	}
	if i.Sharing != nil {
		out = append(out, &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *i.Sharing})
	}
	if i.Gathers != nil {
		out = append(out, &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: Upstream}, Spec: *i.Gathers})
	}
	workload := decodeAll(charts.Agent, i.Namespace)
	agent := &find[*appsv1.Deployment](workload).Spec.Template.Spec.Containers[0]
	agent.Image, agent.Args = i.Image, append(agent.Args, i.Args...)
	if i.Connector {
		agent.Args = append(agent.Args, fmt.Sprintf("--connector-listen=0.0.0.0:%d", connectorPort))
		agent.Ports = append(agent.Ports, corev1.ContainerPort{Name: "connector", ContainerPort: connectorPort})
	}
	return append(out, workload...)
}

// namespace returns a namespace for the pods of Bourse.
func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
}

// JoinSecret returns the Secret in which an agent looks for its join token.
func JoinSecret(namespace, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bourse-join", Namespace: namespace},
		Type: corev1.SecretTypeOpaque, StringData: map[string]string{"token": token}}
}

// decodeAll reads what a chart renders, and moves it from Bourse's usual namespace to another.
func decodeAll(manifest []byte, to string) (out []client.Object) {
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		object := decode(document)
		if object.GetNamespace() == api.Namespace || object.GetNamespace() == brokerNamespace {
			object.SetNamespace(to)
		}
		switch o := object.(type) {
		case *rbacv1.RoleBinding:
			o.Subjects[0].Namespace = to
		case *rbacv1.ClusterRoleBinding:
			o.Subjects[0].Namespace = to
		}
		out = append(out, object)
	}
	return out
}

// decode reads a document. A mistake in a chart, which a test finds, makes it panic.
func decode(document []byte) client.Object {
	var kind unstructured.Unstructured
	if err := payload.ReadYAML(document, &kind.Object); err != nil {
		panic(err)
	}
	o, err := scheme.New().New(kind.GroupVersionKind())
	if err == nil {
		err = payload.ReadYAML(document, o)
	}
	if err != nil {
		panic(err)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o.(client.Object)
}

// find returns the object of a type.
func find[T client.Object](all []client.Object) (found T) {
	for _, o := range all {
		if o, is := o.(T); is {
			found = o
		}
	}
	return found
}

func missing(what string) error {
	return api.Errorf(api.CodeUnavailable, "the cluster has no %s; nothing was changed", what).
		Fix("install them first: helm install bourse-base charts/bourse-base; for an agent in namespace X with --set " +
			"agent.namespace=X")
}

// ExplainMissing returns the error with which something failed in a cluster, or Unavailable if the
// cluster lacks Bourse's kinds.
func ExplainMissing(cluster *rest.Config, err error) error {
	c, made := discovery.NewDiscoveryClientForConfig(cluster)
	if made != nil {
		return err
	}
	if _, look := c.ServerResourcesForGroupVersion(api.GroupVersion.String()); apierrors.IsNotFound(look) {
		return missing(kinds)
	}
	return err
}

const kinds = "SharingPolicies: Bourse's kinds are not there"

// Apply applies all objects with the rights of an admin, and reports each, and what to do to Liqo before the
// cluster lends. It can be repeated.
// Errors: Unavailable where the cluster lacks the kinds, or Liqo; Conflict where Helm or Argo CD installed the agent.
// Then nothing is changed.
func (i Installation) Apply(ctx context.Context, cluster *rest.Config, tell func(string)) error {
	c, err := client.New(cluster, client.Options{Scheme: scheme.New()})
	if err != nil {
		return kubeobject.Error(err)
	}
	if err := c.List(ctx, &api.SharingPolicyList{}); meta.IsNoMatchError(err) {
		return missing(kinds)
	} else if err != nil {
		return kubeobject.Error(err)
	}
	if err := i.check(ctx, c); err != nil {
		return err
	}
	if err := applyAll(ctx, c, i.Objects(), tell); err != nil {
		return err
	}
	if i.Sharing == nil {
		return nil
	}
	problems, err := posture.UncheckedAmounts(ctx, c)
	if err != nil {
		return kubeobject.Error(err)
	}
	for _, p := range problems {
		tell(fmt.Sprintf("before you lend (%s, %s): %s", p.Code, p.Detail, p.Remedy))
	}
	return nil
}

// check refuses a cluster where the agent is another's, or where Liqo is not.
func (i Installation) check(ctx context.Context, c client.Reader) error {
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "bourse-agent"}}
	err := checkOwner(ctx, c, agent)
	if err != nil || !i.Liqo {
		return err
	}
	err = c.Get(ctx, client.ObjectKey{Name: liqoNamespace}, &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		return api.Errorf(api.CodeUnavailable, "the cluster has no namespace %s; nothing was changed", liqoNamespace).
			Fix("install Liqo first, or reserve without running pods: --without-liqo")
	}
	return kubeobject.Error(err)
}

// checkOwner refuses to change what Helm or Argo CD installed: they would change it back.
func checkOwner(ctx context.Context, c client.Reader, o client.Object) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return kubeobject.Error(client.IgnoreNotFound(err))
	}
	notes := o.GetAnnotations()
	if release := notes[helmRelease]; release != "" {
		return api.Errorf(api.CodeConflict, "Helm installed %s here, as release %s; nothing was changed",
			o.GetName(), release).Fix("helm upgrade %s CHART -n %s --reset-then-reuse-values --set ...",
			release, notes[helmNamespace])
	}
	if notes[argoTracking] != "" {
		return api.Errorf(api.CodeConflict, "Argo CD installed %s here; nothing was changed", o.GetName()).
			Fix("change its values where Argo CD reads them")
	}
	return nil
}

// Manifest returns an object as a user applies it: with its kind, and without the fields that the API
// server sets.
func Manifest(o client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(o, scheme.New())
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: fields}
	out.SetGroupVersionKind(kind)
	delete(fields, "status")
	removeEmpty(fields)
	return out, nil
}

// removeEmpty removes fields that typed objects encode although they are not set.
func removeEmpty(fields map[string]any) {
	for name, value := range fields {
		switch v := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			if removeEmpty(v); len(v) == 0 && (name == "resources" || name == "strategy") {
				delete(fields, name)
			}
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					removeEmpty(m)
				}
			}
		}
	}
}
