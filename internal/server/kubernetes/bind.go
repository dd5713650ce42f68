package kubernetes

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Bind makes everything that a member needs in the broker's cluster: its namespace, bound to the cluster's
// ID, and in it an account with the rights of ClusterRole bourse-member. It corrects existing objects, so
// repeating it is harmless. It does not touch a namespace of another cluster. Errors: Conflict for such a
// namespace; those of the API server.
func Bind(ctx context.Context, c client.Client, cluster string) error {
	if err := claim(ctx, c, cluster); err != nil {
		return err
	}
	return letIn(ctx, c, cluster)
}

// claim makes the namespace of a cluster if there is none. It creates and does not apply, so that it never
// takes over another's.
func claim(ctx context.Context, c client.Client, cluster string) error {
	name := kubernetes.Namespace(cluster)
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{kubernetes.ClusterLabel: cluster,
			"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, there); err != nil {
		return err
	}
	if whose := there.Labels[kubernetes.ClusterLabel]; whose != cluster {
		return api.Errorf(api.CodeConflict, "namespace %s is not of cluster %s: its label %s is %q",
			name, cluster, kubernetes.ClusterLabel, whose).
			Fix("find out whose it is: if it is the cluster's, label it %s=%s, else delete it", kubernetes.ClusterLabel, cluster)
	}
	return nil
}

// role is the ClusterRole of every member in its namespace.
var role = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kubernetes.Account}

// accountOf returns the account of a member.
func accountOf(cluster string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: kubernetes.Account,
		Namespace: kubernetes.Namespace(cluster)}
}

// letIn makes the account of a member and its role binding. The account comes last: a token is only useful
// once the account exists. Both are applied, which RBAC can allow for a single name; it cannot for create.
func letIn(ctx context.Context, c client.Client, cluster string) error {
	who := accountOf(cluster)
	binding := rbacv1apply.RoleBinding(kubernetes.Account, who.Namespace).
		WithRoleRef(rbacv1apply.RoleRef().WithAPIGroup(role.APIGroup).WithKind(role.Kind).WithName(role.Name)).
		WithSubjects(rbacv1apply.Subject().WithKind(who.Kind).WithName(who.Name).WithNamespace(who.Namespace))
	for _, o := range []runtime.ApplyConfiguration{binding, corev1apply.ServiceAccount(who.Name, who.Namespace)} {
		if err := c.Apply(ctx, o, client.FieldOwner("bourse-broker"), client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}

// isIn reports whether letIn has nothing to do.
func isIn(ctx context.Context, r client.Reader, cluster string) (bool, error) {
	who, binding := accountOf(cluster), &rbacv1.RoleBinding{}
	key := client.ObjectKey{Namespace: who.Namespace, Name: who.Name}
	err := r.Get(ctx, key, binding)
	if err == nil {
		err = r.Get(ctx, key, &corev1.ServiceAccount{})
	}
	return err == nil && binding.RoleRef == role && slices.Equal(binding.Subjects,
		[]rbacv1.Subject{who}), client.IgnoreNotFound(err)
}
