package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui"
)

// visitor is a browser without scripts.
type visitor struct {
	t      *testing.T
	client *http.Client
	origin string
	prefix string
}

// visit logs in at the pages of a kubeconfig's user, which end with the test.
func visit(t *testing.T, kubeconfig string, namespaces ...string) *visitor {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ui.Listen("", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := ui.Start(ctx, config, l, "rome", "", namespaces, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, client: &http.Client{Jar: jar}, origin: strings.TrimSuffix(s.URL(), "/")}
	answer, _ := v.send(http.MethodPost, "/login", url.Values{"code": {s.Code()}, "to": {"/"}})
	_, to, _ := strings.Cut(answer.Header.Get("Refresh"), "url=")
	v.prefix = strings.TrimSuffix(to, "/")
	return v
}

func (v *visitor) send(method, path string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.origin+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", v.origin)
	}
	answer, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer, string(body)
}

// sees opens a page until it shows a text.
func (v *visitor) sees(path, text string) string {
	v.t.Helper()
	page := ""
	eventually(v.t, path+" shows "+text, func(context.Context) error {
		_, page = v.send(http.MethodGet, v.prefix+path, nil)
		if !strings.Contains(page, text) {
			return fmt.Errorf("it shows %s", page[max(0, strings.Index(page, "<main")):])
		}
		return nil
	})
	return page
}

// act sends a form, and wants a text in the page that follows.
func (v *visitor) act(path, text string, form url.Values) {
	v.t.Helper()
	if _, page := v.send(http.MethodPost, v.prefix+path, form); !strings.Contains(page, text) {
		v.t.Errorf("%s does not lead to %q: %s", path, text, page[max(0, strings.Index(page, "<main")):])
	}
}

// seenOf are the hidden fields of a form about a request.
func seenOf(o api.ResourceRequest) url.Values {
	return url.Values{"reservation": {o.Status.Reservation}, "generation": {fmt.Sprint(o.Status.Generation)},
		"revision": {fmt.Sprintf("%d-%d", o.Generation, o.CreationTimestamp.Unix())}}
}

// A user with the role bourse-requester in one namespace finds, requests, extends and releases in the web UI. A policy by
// the user's name stops a request, the audit log names the user, and no page shows what other namespaces have.
func TestUIByKubeconfig(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"hers", "theirs"} {
		makeNamespace(t, w.rome, namespace)
	}
	granted, err := bourse(t.Context(), "auth", "grant", "gaia", "-n", "hers")
	if err == nil {
		err = w.rome.Cluster.Apply(t.Context(), []byte(granted))
	}
	if err == nil {
		err = w.rome.Cluster.Apply(t.Context(), []byte(neverPolicy))
	}
	if err != nil {
		t.Fatal(err)
	}
	others := ask(t, w.rome, "theirs", "secret", api.Request{Resources: cpu("1"), Target: "milan"})
	becomes(t, w.rome, others, api.Reserved)
	never := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "hers", Name: "never"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: cpu("1")}}}
	eventually(t, "the role and the policy are known", func(ctx context.Context) error {
		err := as(t, w.rome, "gaia").Create(ctx, never.DeepCopy(), kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "gaia may not ask for never") {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	v := visit(t, kubeconfigOf(t, w.rome, "gaia"), "hers")
	find := url.Values{"cpu": {"1"}, "namespace": {"hers"}, "name": {"never"}, "for": {"1h"}}
	v.sees("/find?cpu=1", "milan")
	review := v.sees("/find?panel=review&cpu=1&for=1h&namespace=hers", "would get")
	_, review, _ = strings.Cut(review, `name="seen" value="`)
	seenSpec, _, _ := strings.Cut(review, `"`)
	find.Set("seen", seenSpec)
	v.act("/find/create", "gaia may not ask for never", find)
	find.Set("name", "mine")
	v.act("/find/create", "ResourceRequest hers/mine made", find)
	o := api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "hers", Name: "mine"}}
	becomes(t, w.rome, &o, api.Reserved)
	v.sees("/requests/hers/mine", "Reserved")
	seen := seenOf(o)
	seen.Set("for", "3h")
	v.act("/requests/hers/mine/extend", "The new end is asked for", seen)
	seen.Set("generation", "99")
	v.act("/requests/hers/mine/release", "has changed since you saw it", seen)
	for _, path := range []string{"/", "/borrowing", "/find?cpu=1", "/requests/theirs/secret", "/requests/hers/mine", "/pools/any"} {
		if _, page := v.send(http.MethodGet, v.prefix+path, nil); strings.Contains(page, others.Status.Reservation) ||
			strings.Contains(page, "theirs") && !strings.Contains(path, "theirs") {
			t.Errorf("%s shows what another namespace has: %s", path, page)
		}
	}
	eventually(t, "it is released", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "hers", Name: "mine"}, &o); err != nil {
			return err
		}
		_, page := v.send(http.MethodPost, v.prefix+"/requests/hers/mine/release", seenOf(o))
		if !strings.Contains(page, "hers/mine is being released") {
			return fmt.Errorf("not yet: %s", page[max(0, strings.Index(page, "<main")):])
		}
		return nil
	})
	logged := map[string]int{}
	for _, a := range answersOf(t, w.rome, func(a answer) bool { return a.As.Username == "gaia" }) {
		logged[a.Verb+" "+a.resource()]++
	}
	for _, what := range []string{"create sessions", "create resourcerequests", "patch resourcerequests", "delete resourcerequests"} {
		if logged[what] == 0 {
			t.Errorf("the audit log has none of the user's %s", what)
		}
	}
	release(t, w.rome, others)
}
