package kubeapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// A user of one namespace may do everything there and nothing elsewhere; who has no token of a user may do nothing.
func TestUsers(t *testing.T) {
	api := newAPI(kubeapi.Options{})
	server := httptest.NewServer(api.HandlerFor(kubeapi.User{Name: "root", Token: "all"},
		kubeapi.User{Name: "ann", Token: "hers", Namespace: "team"}, kubeapi.User{Name: "without a token"}))
	defer server.Close()
	admin := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, BearerToken: "all"}).CoreV1()
	ann := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, BearerToken: "hers"}).CoreV1()
	for _, namespace := range []string{"team", "shop"} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		if _, err := admin.ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := ann.ConfigMaps("team").List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 1 {
		t.Errorf("in her namespace she sees %+v, %v", all, err)
	}
	for what, ask := range map[string]func() error{
		"list resource \"configmaps\" in API group \"\" in the namespace \"shop\"": func() error {
			_, err := ann.ConfigMaps("shop").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"list resource \"configmaps\" in API group \"\" at the cluster scope": func() error {
			_, err := ann.ConfigMaps("").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"watch resource \"nodes\" in API group \"\" at the cluster scope": func() error {
			w, err := ann.Nodes().Watch(t.Context(), metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}
			return err
		},
		"delete resource \"configmaps\" in API group \"\" in the namespace \"shop\"": func() error {
			return ann.ConfigMaps("shop").Delete(t.Context(), "a", metav1.DeleteOptions{})
		},
	} {
		if err := ask(); !apierrors.IsForbidden(err) || !strings.HasSuffix(fmt.Sprint(err), `User "ann" cannot `+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, token := range []string{"", "unknown"} {
		stranger := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL, BearerToken: token}).CoreV1()
		_, err := stranger.ConfigMaps("team").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
}
