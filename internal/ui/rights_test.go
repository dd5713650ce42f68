package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kube "k8s.io/client-go/testing"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
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

// Who may not make a request in a namespace learns that, whether the namespace exists or not.
func TestWhoMayNotRequestIsToldSo(t *testing.T) {
	nobody := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), nil)
	u := New(Options{Reads: nobody, Acts: nobody, Patience: time.Minute, Log: slog.New(slog.DiscardHandler),
		May: func(_ context.Context, namespace string) pages.Rights {
			return pages.Rights{Request: namespace == "team"}
		}}, "/s/0")
	defer u.Close()
	missing := func(field string) error { return api.Errorf(api.CodeNotFound, "there is no namespace").At(field) }
	if err := u.ofNamespace(t.Context(), "demo", missing("namespace")); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("in demo: %v", err)
	}
	if err := u.ofNamespace(t.Context(), "team", missing("namespace")); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("in team: %v", err)
	}
	if err := u.ofNamespace(t.Context(), "demo", missing("offload.namespaces")); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the error of another field: %v", err)
	}
}

// A page that the user may not read says whom to ask for which role.
func TestAPageThatMayNotBeReadSaysWhomToAsk(t *testing.T) {
	config := kubeapi.New(kubeapi.Options{Types: federation.Kinds()}).Config()
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{} })
	objects, err := kubeclient.New(config, kubeclient.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	nobody := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), objects)
	u := New(Options{Reads: nobody, Acts: nobody, User: "ann", Patience: time.Minute, Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return pages.Rights{} }}, "/s/0")
	defer u.Close()
	for path, kind := range map[string]string{"/requests/demo/web": "ResourceRequests", "/pools/burst": "VirtualNodePools"} {
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		page := w.Body.String()
		if w.Code != http.StatusForbidden || !strings.Contains(page, "may not read "+kind+" here") || strings.Contains(page, "cannot list") {
			t.Errorf("%s is answered %d:\n%s", path, w.Code, page)
		}
	}
}

// refusing is an API server that lets the user read nothing.
type refusing struct{}

// RoundTrip implements http.RoundTripper.
func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.WriteString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"ann cannot list that"}`)
	return w.Result(), nil
}
