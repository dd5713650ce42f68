package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// What the people of a cluster may do, by the role of config/rbac that they are bound to.
func TestPeoplesRights(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.rome, "studio")
	bind(t, w.rome, "anna", "bourse-requester", "studio")
	bind(t, w.rome, "bruno", "bourse-provider-admin", "")
	bind(t, w.rome, "carla", "bourse-viewer", "")
	bind(t, w.rome, "dario", "view", "studio") // Kubernetes' own role, which is not the viewer's
	read, write := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}
	all := slices.Concat(read, write)
	for _, c := range []struct {
		who, namespace, resource string
		verbs                    []string
		may                      bool
	}{
		{"anna", "studio", "resourcerequests", all, true},
		{"anna", "studio", "reservationinstructions", read, true},
		{"anna", "studio", "reservationinstructions", write, false},
		{"anna", "studio", "resourcerequests/status", write, false},
		{"anna", "studio", "sessions", []string{"create", "get", "delete"}, true},
		{"anna", "studio", "sessions", []string{"list", "watch", "update", "patch"}, false},
		{"anna", "studio", "sessions/status", write, false},
		{"anna", "studio", "pods", read, true},
		{"anna", "studio", "pods", write, false},
		{"anna", "studio", "events", read, true},
		{"anna", "studio", "events", write, false},
		{"anna", "default", "events", read, false},
		{"anna", "default", "resourcerequests", all, false},
		{"anna", "", "sharingpolicies", all, false},
		{"anna", "", "agents", all, false},
		{"anna", "", "clustersessions", all, false},
		{"anna", "bourse", "ledgers", all, false},
		{"bruno", "", "sharingpolicies", all, true},
		{"bruno", "", "agents", read, true},
		{"bruno", "", "agents", write, false},
		{"bruno", "bourse", "advertisements", read, true},
		{"bruno", "bourse", "providerinstructions", read, true},
		{"bruno", "bourse", "providerinstructions", []string{"create", "update", "delete"}, false},
		{"bruno", "bourse", "providerinstructions", []string{"patch"}, true},
		{"bruno", "bourse", "contracts", []string{"patch"}, true},
		{"bruno", "", "clustersessions", []string{"create", "get", "delete"}, true},
		{"bruno", "studio", "resourcerequests", all, false},
		{"bruno", "bourse", "ledgers", all, false},
		{"carla", "", "sharingpolicies", read, true},
		{"carla", "", "agents", read, true},
		{"carla", "", "agents", write, false},
		{"carla", "studio", "resourcerequests", read, true},
		{"carla", "studio", "reservationinstructions", read, true},
		{"carla", "bourse", "advertisements", read, true},
		{"carla", "bourse", "providerinstructions", read, true},
		{"carla", "", "clustersessions", []string{"create", "get", "delete"}, true},
		{"carla", "", "sharingpolicies", write, false},
		{"carla", "studio", "resourcerequests", write, false},
		{"carla", "bourse", "ledgers", read, false},
		{"dario", "studio", "resourcerequests", all, false},
		{"dario", "studio", "sessions", all, false},
	} {
		for _, verb := range c.verbs {
			if !c.may { // what each person may comes first: by then the API server knows their roles
				if allowed, err := allowed(t.Context(), w.rome, c.who, c.namespace, c.resource, verb); err != nil || allowed {
					t.Errorf("%s may %s %s in %q (%v), want not", c.who, verb, c.resource, c.namespace, err)
				}
				continue
			}
			eventually(t, fmt.Sprintf("%s may %s %s in %q", c.who, verb, c.resource, c.namespace),
				func(ctx context.Context) error {
					allowed, err := allowed(ctx, w.rome, c.who, c.namespace, c.resource, verb)
					if err == nil && !allowed {
						err = errors.New("not allowed")
					}
					return err
				})
		}
	}

	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "studio", Name: "hers"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: cpu("1")}}}
	if err := as(t, w.rome, "carla").Create(t.Context(), r.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer makes a request: %v, want forbidden", err)
	}
	if err := as(t, w.rome, "anna").Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	becomes(t, w.rome, r, api.Reserved)
	release(t, w.rome, r)
}

func allowed(ctx context.Context, m *federation.Member, who, namespace, resource, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(resource, "/")
	group := api.Group
	switch resource {
	case "events":
		group = "events.k8s.io"
	case "pods":
		group = ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	err := m.Objects.Create(ctx, review)
	return review.Status.Allowed, err
}

// bind gives a person a ClusterRole, in one namespace or, if that is empty, everywhere.
func bind(t *testing.T, m *federation.Member, person, role, namespace string) {
	t.Helper()
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: person}}
	var binding kube.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: person},
		RoleRef: ref, Subjects: subjects}
	if namespace != "" {
		binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: person, Namespace: namespace},
			RoleRef: ref, Subjects: subjects}
	}
	if err := m.Objects.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, m, binding) })
}

// as is a client of a person.
func as(t *testing.T, m *federation.Member, person string) kube.Client {
	t.Helper()
	config := m.Cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: person}
	c, err := kube.New(config, kube.Options{Scheme: m.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
