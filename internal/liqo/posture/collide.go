package posture

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// liqoRoles are those that Liqo binds to the users and groups that it names after consumers.
var liqoRoles = []string{"liqo-remote-controlplane", "liqo-virtual-kubelet-remote", "liqo-virtual-kubelet-remote-clusterwide"}

// Collides refuses a consumer whose ID already has rights here: Liqo makes a Kubernetes user, and a group, of it.
// Errors: Conflict, with the bindings.
func Collides(ctx context.Context, r client.Reader, consumer string) error {
	var found []string
	var cluster rbacv1.ClusterRoleBindingList
	if err := r.List(ctx, &cluster); err != nil {
		return err
	}
	for _, b := range cluster.Items {
		if names(b.Subjects, consumer) && !slices.Contains(liqoRoles, b.RoleRef.Name) {
			found = append(found, "ClusterRoleBinding "+b.Name)
		}
	}
	var namespaced rbacv1.RoleBindingList
	if err := r.List(ctx, &namespaced); err != nil {
		return err
	}
	for _, b := range namespaced.Items {
		if names(b.Subjects, consumer) && !slices.Contains(liqoRoles, b.RoleRef.Name) {
			found = append(found, fmt.Sprintf("RoleBinding %s/%s", b.Namespace, b.Name))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return api.Errorf(api.CodeConflict, "ClusterIDCollides: %s is a user or group that has rights here, by %s; Liqo would give them to that cluster",
		consumer, found[0]).Fix("rename the user or group, or do not lend to that cluster")
}

func names(subjects []rbacv1.Subject, consumer string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Name == consumer && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind)
	})
}
