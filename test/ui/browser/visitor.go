package browser

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
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// Visitor is a browser without scripts, at the pages of a kubeconfig's user. What it cannot do fails its test.
type Visitor struct {
	t      testing.TB
	client *http.Client
	origin string
	prefix string
}

// Visit logs in at the pages of a kubeconfig's user, which end with the test. cluster is the name of its context.
func Visit(t testing.TB, cluster, kubeconfig string, namespaces ...string) *Visitor {
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
	s, err := ui.Start(ctx, config, l, cluster, "", namespaces, slog.New(slog.DiscardHandler))
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
	v := &Visitor{t: t, client: &http.Client{Jar: jar}, origin: strings.TrimSuffix(s.URL(), "/")}
	answer, _ := v.send(http.MethodPost, "/login", url.Values{"code": {s.Code()}, "to": {"/"}})
	_, to, _ := strings.Cut(answer.Header.Get("Refresh"), "url=")
	v.prefix = strings.TrimSuffix(to, "/")
	return v
}

func (v *Visitor) send(method, path string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.origin+v.prefix+path, strings.NewReader(form.Encode()))
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

// Open returns a page.
func (v *Visitor) Open(path string) string {
	v.t.Helper()
	_, page := v.send(http.MethodGet, path, nil)
	return page
}

// See opens a page until it shows a text, for as long as patience says, and returns it.
func (v *Visitor) See(patience time.Duration, path, text string) (page string) {
	v.t.Helper()
	federation.Eventually(v.t, patience, path+" shows "+text, func(context.Context) error {
		if page = v.Open(path); !strings.Contains(page, text) {
			return fmt.Errorf("it shows %s", page[max(0, strings.Index(page, "<main")):])
		}
		return nil
	})
	return page
}

// Post sends a form, and returns the page that follows.
func (v *Visitor) Post(path string, form url.Values) string {
	v.t.Helper()
	_, page := v.send(http.MethodPost, path, form)
	return page
}

// Act sends a form, and wants a text in the page that follows.
func (v *Visitor) Act(path, text string, form url.Values) {
	v.t.Helper()
	if page := v.Post(path, form); !strings.Contains(page, text) {
		v.t.Errorf("%s does not lead to %q: %s", path, text, page[max(0, strings.Index(page, "<main")):])
	}
}

// Create finds capacity, reviews a request for it, and creates the request. form has the fields of the page.
func (v *Visitor) Create(text string, form url.Values) {
	v.t.Helper()
	review := v.Open("/find?panel=review&" + form.Encode())
	_, seen, _ := strings.Cut(review, `name="seen" value="`)
	digest, _, _ := strings.Cut(seen, `"`)
	form.Set("seen", digest)
	v.Act("/find/create", text, form)
	form.Del("seen")
}

// Seen are the hidden fields of a form about a request.
func Seen(o api.ResourceRequest) url.Values {
	return url.Values{"reservation": {o.Status.Reservation}, "generation": {fmt.Sprint(o.Status.Generation)},
		"revision": {fmt.Sprintf("%d-%d", o.Generation, o.CreationTimestamp.Unix())}}
}
