// Package install puts the agent or a broker into a cluster, and takes the agent out again, with the rights of
// the cluster's admin. It serves `bourse init`, `bourse broker init` and `bourse uninstall`; a running agent does
// not use it.
//
// Start at [Installation]: its Objects are what config/agent holds, with the answers that the admin
// gave, and its Apply applies them. [Uninstall] is the way back.
package install

import (
	"bytes"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/payload"
)

// connectorPort is the port of the connector in a pod.
const connectorPort = 7444

// Installation is what `bourse init` puts into a cluster, besides the kinds and the rights: the agent
// with the answers of its admin.
type Installation struct {
	Namespace string
	Image     string
	// Join is the join token. Empty: the cluster has joined before.
	Join string
	// Args are arguments of the agent besides those in config/agent/deployment.yaml.
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

// Objects returns all objects, in the order in which Apply applies them: those of config/agent,
// and between them what the admin answered.
func (i Installation) Objects() []client.Object {
	var namespace corev1.Namespace
	var deployment appsv1.Deployment
	var budget policyv1.PodDisruptionBudget
	workload := bytes.Split(config.Agent, []byte("\n---\n"))
	decode(config.AgentNamespace, &namespace)
	decode(workload[0], &deployment)
	decode(workload[1], &budget)
	namespace.Name, deployment.Namespace, budget.Namespace = i.Namespace, i.Namespace, i.Namespace
	agent := &deployment.Spec.Template.Spec.Containers[0]
	agent.Image, agent.Args = i.Image, append(agent.Args, i.Args...)
	if i.Connector {
		agent.Args = append(agent.Args, fmt.Sprintf("--connector-listen=0.0.0.0:%d", connectorPort))
		agent.Ports = append(agent.Ports, corev1.ContainerPort{Name: "connector", ContainerPort: connectorPort})
	}
	out := []client.Object{&namespace}
	if i.Join != "" {
		out = append(out, JoinSecret(i.Namespace, i.Join))
	}
	if i.Sharing != nil {
		out = append(out, &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *i.Sharing})
	}
	if i.Gathers != nil {
		out = append(out, &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: Upstream}, Spec: *i.Gathers})
	}
	return append(out, &deployment, &budget)
}

// JoinSecret returns the Secret in which an agent looks for its join token.
func JoinSecret(namespace, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bourse-join", Namespace: namespace},
		Type: corev1.SecretTypeOpaque, StringData: map[string]string{"token": token}}
}

// decode reads a manifest of this repository.
func decode(manifest []byte, into client.Object) {
	if err := payload.ReadYAML(manifest, into); err != nil {
		panic(err) // a mistake in config/agent, which a test finds
	}
}

func missing(what string) error {
	return api.Errorf(api.CodeUnavailable, "the cluster has no %s; nothing was changed", what).
		Fix("apply these first: kubectl apply -f config/agent/namespace.yaml; kubectl apply -k config/crd; kubectl " +
			"apply -k config/rbac; with Liqo also: kubectl apply -k config/liqo")
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
// Errors: Unavailable where the cluster lacks the kinds or the rights; then nothing is changed.
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
	if err := c.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: "bourse-agent"},
		&corev1.ServiceAccount{}); apierrors.IsNotFound(err) {
		return missing("ServiceAccount bourse-agent in namespace " + i.Namespace)
	} else if err != nil {
		return kubeobject.Error(err)
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
