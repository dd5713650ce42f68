package posture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// liqoRoles are those that Liqo binds to the users and groups that it names after consumers.
var liqoRoles = []string{"liqo-remote-controlplane", "liqo-virtual-kubelet-remote", "liqo-virtual-kubelet-remote-clusterwide"}

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

// Collides refuses a consumer whose ID already has rights here: Liqo makes a Kubernetes user, and a group, of it.
// Errors: Conflict, with the first of the bindings.
func (all Bindings) Collides(consumer string) error {
	var found []string
	for _, b := range all.cluster.Items {
		if names(b.Subjects, consumer) && !slices.Contains(liqoRoles, b.RoleRef.Name) {
			found = append(found, "ClusterRoleBinding "+b.Name)
		}
	}
	for _, b := range all.namespaced.Items {
		if names(b.Subjects, consumer) && !slices.Contains(liqoRoles, b.RoleRef.Name) {
			found = append(found, fmt.Sprintf("RoleBinding %s/%s", b.Namespace, b.Name))
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return api.Errorf(api.CodeConflict, collides+"%s is a user or group that has rights here, by %s; Liqo would give them to that cluster",
		consumer, found[0]).Fix("rename the user or group, or do not lend to that cluster")
}

// collides begins what a peering says; the doctor has it as a code.
const collides = "ClusterIDCollides: "

// Colliding are those of the consumers that collide.
func Colliding(ctx context.Context, r client.Reader, consumers []string) (found []api.Problem, err error) {
	if len(consumers) == 0 {
		return nil, nil
	}
	all, err := ReadBindings(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, consumer := range consumers {
		if e, ok := errors.AsType[*api.Error](all.Collides(consumer)); ok {
			found = append(found, health.ClusterIDCollides.Of("cluster "+consumer, e.Remedy, "%s", strings.TrimPrefix(e.Detail, collides)))
		}
	}
	return found, nil
}

func names(subjects []rbacv1.Subject, consumer string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Name == consumer && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind)
	})
}
