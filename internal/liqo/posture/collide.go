package posture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// liqoRoles are those that Liqo binds to the users and groups that it names after consumers.
var liqoRoles = []string{"liqo-remote-controlplane", "liqo-virtual-kubelet-remote",
	"liqo-virtual-kubelet-remote-clusterwide"}

// wellKnown are namespaces that Kubernetes and what is installed beside it make for themselves,
// with what others must not read. Liqo would make one of these, where it is not there yet, for a
// consumer whose ID ends its name.
var wellKnown = []string{
	"kube-system", "kube-public", "kube-node-lease", "kube-flannel",
	"local-path-storage", "liqo-storage", "bourse-placeholders",
	"cert-manager", "ingress-nginx", "istio-ingress",
	"istio-egress", "external-dns", "external-secrets", "sealed-secrets", "trust-manager",
	"aws-load-balancer-controller", "cluster-autoscaler",
	"node-feature-discovery", "metrics-server", "amazon-cloudwatch", "amazon-guardduty",
	"knative-serving", "knative-eventing", "linkerd-viz",
	"linkerd-jaeger", "rook-ceph", "tekton-pipelines", "tekton-triggers", "argo-cd", "argo-rollouts",
	"argo-events", "argo-workflows", "flux-operator",
	"gpu-operator", "network-operator", "prometheus-operator", "tigera-operator", "opentelemetry-operator",
	"vault-secrets-operator", "kube-prometheus-stack",
	"cattle-monitoring", "cattle-logging", "openshift-apiserver", "openshift-authentication", "openshift-config",
	"openshift-console", "openshift-dns", "openshift-etcd",
	"openshift-gitops", "openshift-ingress", "openshift-logging", "openshift-marketplace",
	"openshift-monitoring", "openshift-operators", "openshift-pipelines", "openshift-storage",
}

// Bindings are those of roles, in the whole cluster.
type Bindings struct {
	cluster    rbacv1.ClusterRoleBindingList
	namespaced rbacv1.RoleBindingList
}

// ReadBindings reads them.
func ReadBindings(ctx context.Context, r client.Reader) (all Bindings, err error) {
	if err = r.List(ctx, &all.cluster); err == nil {
		err = r.List(ctx, &all.namespaced)
	}
	return all, err
}

// Colliding finds the consumers whose IDs already mean something here. Liqo makes a Kubernetes user
// and a group of each ID, and names namespaces NAMESPACE-CONSUMER.
func (all Bindings) Colliding(consumers ...string) (found []api.Problem) {
	for _, consumer := range consumers {
		if i := slices.IndexFunc(wellKnown, func(name string) bool { return strings.HasSuffix(name, "-"+consumer) }); i >= 0 {
			found = append(found, health.ClusterIDCollides.Of("cluster "+consumer,
				"do not lend to that cluster, or have its admin choose another cluster ID",
				"a namespace of its could get the name of a well-known namespace of this cluster: %s", wellKnown[i]))
		}
		by := slices.DeleteFunc(all.of(consumer), func(b binding) bool { return slices.Contains(liqoRoles, b.role) })
		if len(by) > 0 {
			found = append(found, health.ClusterIDCollides.Of("cluster "+consumer,
				"rename the user or group, or do not lend to that cluster",
				"%s is also a user or group that has rights here (%s): Liqo would give that cluster the same rights",
				consumer, by[0].name))
		}
	}
	return found
}

// binding is the kind and name of a binding, and the role that it gives.
type binding struct{ name, role string }

// of returns the bindings that name one of the users or groups, by name.
func (all Bindings) of(users ...string) (found []binding) {
	names := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return slices.Contains(users, s.Name) && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind)
		})
	}
	for _, b := range all.cluster.Items {
		if names(b.Subjects) {
			found = append(found, binding{"ClusterRoleBinding " + b.Name, b.RoleRef.Name})
		}
	}
	for _, b := range all.namespaced.Items {
		if names(b.Subjects) {
			found = append(found, binding{fmt.Sprintf("RoleBinding %s/%s", b.Namespace, b.Name), b.RoleRef.Name})
		}
	}
	slices.SortFunc(found, func(a, b binding) int { return strings.Compare(a.name, b.name) })
	return found
}
