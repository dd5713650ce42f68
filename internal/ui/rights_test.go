package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kube "k8s.io/client-go/testing"

	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// A page asks for the rights in its own namespace, and the API server is asked for each once in a while. What it does not
// say stays as it was.
func TestRightsAreThoseOfTheNamespace(t *testing.T) {
	objects := fake.NewClientset()
	var asked atomic.Int64
	var away atomic.Bool
	objects.PrependReactor("create", "selfsubjectaccessreviews", func(a kube.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		review := a.(kube.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = of.Namespace == "team" && of.Resource == "resourcerequests"
		if away.Load() {
			return true, nil, errors.New("the API server is away")
		}
		return true, review, nil
	})
	m := &me{objects: objects, known: map[right]judged{}}
	for range 3 {
		if may := m.rights(t.Context(), "team", "default", "bourse"); may != (pages.Rights{Request: true, ChangeRequests: true,
			ReleaseRequests: true}) {
			t.Errorf("in team she may %+v", may)
		}
		if may := m.rights(t.Context(), "default", "default", "bourse"); may != (pages.Rights{}) {
			t.Errorf("in default she may %+v", may)
		}
	}
	if n := asked.Load(); n != 14 { // three rights in each namespace, eight in the cluster
		t.Errorf("the API server is asked %d times", n)
	}
	away.Store(true)
	for r, j := range m.known {
		j.at = j.at.Add(-rightKnown)
		m.known[r] = j
	}
	if may := m.rights(t.Context(), "default", "default", "bourse"); may != (pages.Rights{}) {
		t.Errorf("an API server that is away gives %+v", may)
	}
	if !m.may(t.Context(), right{"new", "create", "resourcerequests"}) {
		t.Error("an act that nobody judged is shut")
	}
}

// The namespace of a page is that of its path, else that which its form names, else the first that the pages show.
func TestAPageAsksForTheRightsOfItsNamespace(t *testing.T) {
	for path, want := range map[string]string{"/requests/theirs/web": "theirs", "/find?namespace=hers": "hers", "/find": "team",
		"/": "team"} {
		got := ""
		nobody := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), nil, "team", "hers")
		u := New(Options{Reads: nobody, Acts: nobody, Namespaces: []string{"team", "hers"}, Log: slog.New(slog.DiscardHandler),
			May: func(_ context.Context, namespace string) pages.Rights {
				got = namespace
				return pages.Rights{}
			}}, "/s/0")
		u.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if u.Close(); got != want {
			t.Errorf("%s asks for %q, want %q", path, got, want)
		}
	}
}
