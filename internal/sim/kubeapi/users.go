package kubeapi

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// User is who calls a server. There are no roles: a user may do everything in the cluster, or in one namespace.
type User struct {
	Name string
	// Token is the bearer token that the user shows.
	Token string
	// Namespace is the only one where the user may do anything; empty is the whole cluster.
	Namespace string
}

// admin calls within the process, and where nobody is asked for a token.
var admin = User{Name: "admin"}

// HandlerFor serves the API as Handler does, to these users alone.
func (a *API) HandlerFor(users ...User) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		for _, u := range users {
			if u.Token != "" && subtle.ConstantTimeCompare([]byte(u.Token), []byte(token)) == 1 {
				a.serve(w, r, u)
				return
			}
		}
		refuse(w, apierrors.NewUnauthorized("Unauthorized"))
	})
}

// may tells whether the user may do anything in a namespace, or in the whole cluster if it is empty.
func (u User) may(namespace string) bool { return u.Namespace == "" || u.Namespace == namespace }

// authorize refuses what the user of the request may not do. Errors: Forbidden.
func (q *request) authorize() error {
	if q.user.may(q.key.Namespace) {
		return nil
	}
	where := "at the cluster scope"
	if q.key.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", q.key.Namespace)
	}
	why := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", q.user.Name, q.verb, q.resource(),
		q.table.GroupVersion.Group, where)
	return apierrors.NewForbidden(q.table.groupResource(), q.key.Name, errors.New(why))
}

// reviews are what a user asks about itself, by path. They are answered and not stored.
var reviews = map[string]*table{
	"/apis/authentication.k8s.io/v1/selfsubjectreviews": {Type: Type{
		GroupVersion: authenticationv1.SchemeGroupVersion, Kind: "SelfSubjectReview"}},
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {Type: Type{
		GroupVersion: authorizationv1.SchemeGroupVersion, Kind: "SelfSubjectAccessReview"}},
}

// review answers who a user is, or what it may do, and tells whether that was asked.
func (a *API) review(w http.ResponseWriter, r *http.Request, u User) bool {
	of := reviews[r.URL.Path]
	if of == nil || r.Method != http.MethodPost {
		return false
	}
	var review *unstructured.Unstructured
	body, err := readBody(r)
	if err == nil {
		review, err = of.decode(body)
	}
	if err != nil {
		refuse(w, err)
		return true
	}
	if of.Kind == "SelfSubjectReview" {
		user := map[string]any{"username": u.Name, "groups": u.groups()}
		review.Object["status"] = map[string]any{"userInfo": user}
		reply(w, http.StatusCreated, marshal(review.Object))
		return true
	}
	_, some, _ := unstructured.NestedMap(review.Object, "spec", "resourceAttributes")
	_, other, _ := unstructured.NestedMap(review.Object, "spec", "nonResourceAttributes")
	if some == other {
		refuse(w, apierrors.NewInvalid(review.GroupVersionKind().GroupKind(), "", nil))
		return true
	}
	review.Object["status"] = map[string]any{"allowed": u.may(at(review.Object, "spec.resourceAttributes.namespace"))}
	reply(w, http.StatusCreated, marshal(review.Object))
	return true
}

// groups are those of a user, as on a real server.
func (u User) groups() []string {
	if u.Namespace == "" {
		return []string{"system:masters", "system:authenticated"}
	}
	return []string{"system:authenticated"}
}
