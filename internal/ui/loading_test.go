package ui_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// held keeps calls to paths that have a text, until it is released.
type held struct {
	text string
	next http.RoundTripper

	once     sync.Once
	released chan struct{}
}

func hold(t *testing.T, text string) *held {
	h := &held{text: text, released: make(chan struct{})}
	t.Cleanup(h.release)
	return h
}

func (h *held) release() { h.once.Do(func() { close(h.released) }) }

func (h *held) wrap(next http.RoundTripper) http.RoundTripper {
	return &held{text: h.text, next: next, released: h.released}
}

// RoundTrip implements http.RoundTripper.
func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, h.text) {
		select {
		case <-h.released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return h.next.RoundTrip(r)
}

// check checks what a page has, and what it has not.
func (a *admin) check(path string, has, hasNot []string) {
	a.t.Helper()
	page := a.get(path)
	for _, text := range has {
		if !strings.Contains(page, text) {
			a.t.Errorf("%s has no %q:\n%s", path, text, page)
		}
	}
	for _, text := range hasNot {
		if strings.Contains(page, text) {
			a.t.Errorf("%s has %q", path, text)
		}
	}
}

// without returns a page once it has none of a text.
func (a *admin) without(path, text string) string {
	a.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		page := a.get(path)
		if !strings.Contains(page, text) {
			return page
		}
		if time.Now().After(end) {
			a.t.Fatalf("%s always has %q:\n%s", path, text, page)
		}
	}
}

// through is the stage of a question to the agent.
const through = ": the agent is asked through the API server since "

// reloads has a page without script read itself again.
const reloads = `<noscript><meta http-equiv="refresh" content="2"></noscript>`

// While the agent does not answer, each page is there at once with all that objects say. Each part that waits says for
// what, in its place, and is neither empty nor an error. Once the agent answers, the page has it.
func TestAPageNamesWhatItWaitsFor(t *testing.T) {
	_, f := startMilan(t)
	agent := hold(t, "sessions")
	config := f.Members["rome"].Cluster.API.Config()
	config.Wrap(agent.wrap)
	acts, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	a := &admin{t: t}
	watched, err := cluster.NewWatched(t.Context(), config, func() { a.pages.Change() })
	if err != nil {
		t.Fatal(err)
	}
	reads := acts.ReadFrom(watched)
	a.pages = ui.New(ui.Options{Reads: reads, Acts: acts, User: "admin", Patience: time.Nanosecond, Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return pages.AnyRights }}, "/s/0")
	t.Cleanup(a.pages.Close)
	for _, path := range []string{"/", "/borrowing", "/lending", "/offers", "/brokers", "/clusters"} { // objects come
		a.without(path, ": the API server")
	}
	for _, page := range loadingPages {
		a.check(page.path, page.has, append(failures, page.hasNot...))
	}
	agent.release()
	for _, page := range loadingPages {
		a.until(page.path, page.later)
		a.without(page.path, "Loading ")
		a.check(page.path, nil, append(failures, reloads, "are loading"))
	}
}

// failures are what a page has that shows an error.
var failures = []string{"agent does not answer", "has not answered", `role="alert"`, "cannot be read", "may not read"}

// loadingPages are pages of rome whose agent does not answer: what they have then, and what they have later.
var loadingPages = []struct {
	path        string
	has, hasNot []string
	later       string
}{
	{"/", []string{"Loading the problems" + through, "Problems are loading", reloads}, []string{"Nothing waits for you", "No problem"}, "Needs you"},
	{"/borrowing", []string{"Nothing is borrowed", reloads}, nil, "Nothing is borrowed"},
	{"/find", []string{"Loading the catalog" + through, "Say what you need", "reload it"}, []string{reloads}, "On sale"},
	{"/find?cpu=1", []string{"Loading which clusters fit" + through, reloads}, []string{"of 0 clusters"}, "clusters became"},
	{"/find?cpu=1&panel=review", []string{"Loading which clusters fit" + through, "reload it"}, []string{reloads, "no cluster can"},
		"would get"},
	{"/find?panel=propose&id=milan/web/small", []string{"Loading the catalog" + through}, []string{"not on sale any more"},
		"A proposal binds nobody"},
	{"/lending", []string{"This cluster lends nothing"}, nil, "This cluster lends nothing"},
	{"/offers", []string{"Loading the catalog" + through, "This cluster sells nothing"}, nil, "This cluster sells nothing"},
	{"/contracts", []string{"There is no contract yet"}, nil, "There is no contract yet"},
	{"/clusters", []string{"Loading the clusters" + through}, []string{"No other cluster is visible"}, "cluster-milan"},
	{"/clusters/milan", []string{"<h1>milan</h1>", "Loading the cluster" + through}, []string{"there is no cluster"}, "What it can do here"},
	{"/brokers", []string{"Loading the brokers" + through, "Loading the catalog" + through, "Loading the name of the cluster" + through},
		[]string{"has no broker", "0 offers", "First steps"}, "Connected"},
	{"/search?q=milan", []string{"Loading the brokers", "the catalog", "the clusters"}, []string{"Nothing has"}, "/clusters/milan"},
}

// An API server that sends nothing yet is named with its stage. What is known besides is shown, and the rights of the user
// are no reason to shut an act before they are known.
func TestAPageNamesTheObjectsThatItWaitsFor(t *testing.T) {
	served := kubeapi.New(kubeapi.Options{Types: federation.Kinds()})
	direct, err := kube.New(served.Config(), kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}
	if err := direct.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	server, rights := hold(t, "/resourcerequests"), make(chan struct{})
	config := served.Config()
	config.Wrap(server.wrap)
	a := &admin{t: t}
	watched, err := cluster.NewWatched(t.Context(), config, func() { a.pages.Change() })
	if err != nil {
		t.Fatal(err)
	}
	acts := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), direct)
	a.pages = ui.New(ui.Options{Reads: acts.ReadFrom(watched), Acts: acts, User: "ann", Patience: time.Nanosecond,
		Log: slog.New(slog.DiscardHandler), May: func(context.Context, string) pages.Rights {
			<-rights
			return pages.Rights{Request: true}
		}}, "/s/0")
	t.Cleanup(a.pages.Close)
	known := "Loading ResourceRequests: the API server is asked whether you may list them since "
	page := a.until("/borrowing", known)
	if !strings.Contains(page, "rights are loading") || strings.Contains(page, "Nothing is borrowed") {
		t.Errorf("the page says what it does not know:\n%s", page)
	}
	a.check("/lending", []string{"rights are loading"}, []string{"You may not"})
	server.release()
	a.until("/borrowing", `id="row-team/web"`)
	a.without("/borrowing", "Loading ResourceRequests")
	close(rights)
	a.until("/borrowing", "requester in all namespaces")
	a.until("/lending", "You may not")
}

// A broker that does not answer is no federation without members. Once it refuses, the page says why.
func TestTheOperatorsPageNamesWhatItWaitsFor(t *testing.T) {
	asked := make(chan struct{})
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-asked:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(api.Errorf(api.CodeForbidden, "you are no operator"))
	}))
	t.Cleanup(broker.Close)
	a := &admin{t: t, pages: ui.New(ui.Options{Broker: client.New(broker.URL, nil), Patience: time.Nanosecond,
		Log: slog.New(slog.DiscardHandler)}, "/s/0")}
	t.Cleanup(a.pages.Close)
	const how = ": the broker is asked since "
	a.check("/", []string{"Loading the state of the broker" + how, "Loading the members" + how, "Loading the join tokens" + how,
		"Loading the requests that wait" + how, reloads}, append(failures, "No cluster has joined", "No member shares"))
	a.check("/?panel=token", []string{"reload it"}, []string{reloads})
	close(asked)
	a.until("/", "you are no operator")
	a.without("/", "Loading ")
}
