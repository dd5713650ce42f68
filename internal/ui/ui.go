// Package ui is the web UI of a cluster: `bourse ui`. It runs on the user's machine, reads and writes objects with the
// user's own kubeconfig, and asks the agent the questions that the CLI asks. It has no right and no decision of its own.
//
// Start with ui.go, which has the table of pages. door.go lets the user in, live.go keeps open pages up to date,
// source.go reads. Package pages has the HTML.
package ui

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"
	"golang.org/x/sync/singleflight"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/ui/pages"
	"github.com/bourse-dev/bourse/internal/ui/static"
)

const (
	// readWithin bounds what a file reads, and the answer to a form: neither is shown again when something comes.
	readWithin = 15 * time.Second
	// actWithin bounds an act of the user.
	actWithin = 30 * time.Second
	// mostForm is the largest body of a form, in bytes.
	mostForm = 256 << 10
	// mostDone is how many messages of acts are kept for the pages that show them.
	mostDone = 64
	// sleepShown is how long pages say that the machine slept.
	sleepShown = time.Minute
	// doneLasts is how long a message of an act is shown.
	doneLasts = 2 * time.Minute
)

// Options are what the pages need.
type Options struct {
	// Reads reads objects, from watches if possible; Acts reads and writes them at the API server.
	Reads, Acts *cluster.Client
	// Away says why the API server does not answer, and how old what Reads has is. Nil: it always answers.
	Away func() (since time.Time, err error)
	// Broker, if set, is the broker whose operator looks: there is no cluster then.
	Broker *client.Client
	// Context, Server and User are shown: those of the kubeconfig, and the name that the API server knows.
	Context, Server, User string
	// Namespaces are those that the pages show. Empty: all.
	Namespaces []string
	// May says what the user may do, of the rights in a namespace in that which the page is about. Each page asks it.
	May func(ctx context.Context, namespace string) pages.Rights
	// Patience is how long a page waits for what it reads. Zero: patience.
	Patience time.Duration
	// ThemeFile keeps the theme that the user chose. Empty: it ends with the process.
	ThemeFile string
	Log       *slog.Logger
}

// UI are the pages of a cluster for one user.
type UI struct {
	o      Options
	source *source
	live   *Live
	pages  http.Handler
	prefix string
	theme  *theme
	sizes  *sizes
	// kubeconfig is that of the user. Nil: nobody looks whether it changes.
	kubeconfig *Kubeconfig

	// changes counts those of objects, and reads the requests that are read now.
	changes atomic.Uint64
	reads   singleflight.Group

	mu    sync.Mutex
	last  lastBorrowed
	done  []message
	slept [2]time.Time // when the machine was last seen before its sleep, and after it
	woke  time.Time    // when that was noticed
	name  string       // the cluster's ID; empty: it is not known yet
}

// message is what an act did, for the page that follows it. It may hold a secret, so it ends.
type message struct {
	id, text string
	until    time.Time
}

// New makes the pages of a cluster. They are below a prefix, which the handler does not see.
func New(o Options, prefix string) *UI {
	o.Patience = cmp.Or(o.Patience, patience)
	u := &UI{o: o, source: newSource(o), prefix: prefix, theme: newTheme(o.ThemeFile), sizes: newSizes(o)}
	u.pages = u.handler()
	u.live = newLive(u.pages)
	u.source.changed = u.live.Change
	return u
}

// Change has the pages that are open show what changed.
func (u *UI) Change() {
	u.changes.Add(1)
	u.sizes.change()
	u.live.Change()
}

// wake has everything asked again after the machine slept, and says that it did.
func (u *UI) wake(from, to time.Time) {
	u.mu.Lock()
	u.slept, u.woke = [2]time.Time{from, to}, time.Now()
	u.mu.Unlock()
	u.source.forget()
	u.Change()
	time.AfterFunc(sleepShown, u.Change)
}

// asleep says that the machine slept a moment ago.
func (u *UI) asleep() []pages.Banner {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.woke.IsZero() || time.Since(u.woke) >= sleepShown {
		return nil
	}
	return []pages.Banner{{Tone: pages.Warn, Text: "This machine was asleep from " + pages.Full(u.slept[0]) + " to " +
		pages.Full(u.slept[1]) + ". Everything is asked again."}}
}

// Pages returns how many pages are open.
func (u *UI) Pages() int { return u.live.Pages() }

// Close ends the connections of the pages.
func (u *UI) Close() { u.live.Close() }

// together calls functions at the same time, and returns after all of them.
func together(all ...func()) {
	var running sync.WaitGroup
	for _, do := range all {
		running.Go(do)
	}
	running.Wait()
}

// content is a page without its frame. Its status is that of the answer; 0 is 200.
type content struct {
	title  string
	status int
	typing bool // see [pages.View]
	body   func(pages.View) templ.Component
}

// show reads a page.
type show func(u *UI, ctx context.Context, r *http.Request) content

// act carries out a form. It returns the page to show next, as segments of its path, and what was done.
type act func(u *UI, ctx context.Context, r *http.Request) (to []string, done string, err error)

// route is a page with its acts, by their names.
type route struct {
	path string
	show show
	acts map[string]act
}

// routes are the pages of a cluster and their acts. A page whose act failed is shown again, with the error.
var routes = []route{
	{"/{$}", (*UI).home, nil},
	{"/borrowing", (*UI).borrowing, nil},
	{"/find", (*UI).find, findActs},
	{"/pools/{name}", (*UI).pool, poolActs},
	{"/requests/{namespace}/{name}", (*UI).request, requestActs},
	{"/lending", (*UI).lending, lendingActs},
	{"/offers", (*UI).ownOffers, offerActs},
	{"/contracts", (*UI).contracts, contractActs},
	{"/clusters", (*UI).others, nil},
	{"/clusters/{cluster}", (*UI).cluster, clusterActs},
	{"/brokers", (*UI).brokers, brokerActs},
	{"/search", (*UI).search, nil},
}

// ServeHTTP implements http.Handler.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/live":
		u.live.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, "/static/"):
		// The prefix is that of one run, so these files never change.
		w.Header().Set("Cache-Control", "private, max-age=86400, immutable")
		static.Serve(w, r, strings.TrimPrefix(r.URL.Path, "/static/"))
	default:
		u.pages.ServeHTTP(w, r)
	}
}

// handler serves the pages and their forms.
func (u *UI) handler() http.Handler {
	mux := http.NewServeMux()
	all := routes
	if u.o.Broker != nil {
		all = operatorRoutes
	}
	for _, route := range all {
		mux.HandleFunc("GET "+route.path, func(w http.ResponseWriter, r *http.Request) { u.answer(w, r, route.show, nil) })
		for name, do := range route.acts {
			mux.HandleFunc("POST "+strings.TrimSuffix(route.path, "/{$}")+"/"+name,
				func(w http.ResponseWriter, r *http.Request) { u.carryOut(w, r, route.show, name, do) })
		}
	}
	mux.HandleFunc("GET /contracts.csv", u.contractsFile)
	mux.HandleFunc("POST /theme", u.chooseTheme)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { u.answer(w, r, (*UI).notFound, nil) })
	return mux
}

// answer renders a page. failed is why an act on it changed nothing.
func (u *UI) answer(w http.ResponseWriter, r *http.Request, show show, failed *api.Error) {
	preview := r.Context().Value(previewKey{})
	within := u.o.Patience
	if failed != nil || preview != nil {
		within = readWithin
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	reading := &reading{at: time.Now()}
	ctx = context.WithValue(ctx, readingKey{}, reading)
	var of content
	namespace := u.namespaceOf(r)
	together(func() { of = show(u, ctx, r) }, func() { u.askFrame(ctx, namespace) })
	v := u.view(ctx, r, of.title)
	v.AsOf, v.Failed, v.Typed, v.Theme = reading.oldest(), failed, r.PostForm, u.theme.now()
	v.Preview, v.Typing = preview, of.typing
	v.Banners = slices.Concat(v.Banners, u.asleep(), u.kubeconfig.banners(), reading.banners(u.o.Broker != nil))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if failed != nil {
		of.status = http.StatusUnprocessableEntity
	}
	if of.status != 0 {
		w.WriteHeader(of.status)
	}
	if err := pages.Layout(v, of.body(v)).Render(r.Context(), w); err != nil && r.Context().Err() == nil {
		u.o.Log.Warn("a page is not whole", "page", r.URL.Path, "error", err)
	}
}

// carryOut does what a form says. After that the browser asks for a page anew, so that a reload repeats nothing.
func (u *UI) carryOut(w http.ResponseWriter, r *http.Request, show show, name string, do act) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	ctx, cancel := context.WithTimeout(r.Context(), actWithin)
	defer cancel()
	err := r.ParseForm()
	if err != nil {
		err = api.Errorf(api.CodeInvalid, "the form cannot be read: %s", err).Fix("reload the page, and try again")
	}
	var to []string
	var done string
	if err == nil {
		to, done, err = do(u, ctx, r)
	}
	u.o.Log.Info("act", "path", r.URL.Path, "act", name, "error", err)
	u.source.forget()
	u.changes.Add(1)
	preview, only := errors.AsType[*previewed](err)
	if only {
		r, err = r.WithContext(context.WithValue(r.Context(), previewKey{}, preview.of)), nil
	}
	if err != nil || only {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/"+name)
		if r.URL.Path == "" {
			r.URL.Path = "/"
		}
		query := r.URL.Query()
		query.Set("panel", name)
		r.URL.RawQuery = query.Encode()
		u.answer(w, r, show, asError(err))
		return
	}
	at := string(pages.View{Prefix: u.prefix}.To(to...))
	if done != "" {
		at += "?" + url.Values{"done": {u.remember(done)}}.Encode()
	}
	u.live.Change()
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// previewed is what an act returns that was only to show what it would do.
type previewed struct{ of any }

// Error implements error.
func (*previewed) Error() string { return "nothing was written" }

type previewKey struct{}

// remember keeps a message for the page that shows it, and returns its name.
func (u *UI) remember(text string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := message{id: secret()[:12], text: text, until: time.Now().Add(doneLasts)}
	if u.done = append(u.done, m); len(u.done) > mostDone {
		u.done = u.done[1:]
	}
	return m.id
}

// rights returns what the user may do, and says if that is on its way.
func (u *UI) rights(ctx context.Context, namespace string) (pages.Rights, *api.Error) {
	may, err := ask(ofObjects(ctx), u.source, question{"rights/" + namespace, "your rights"}, func(ctx context.Context) (pages.Rights, error) {
		return u.o.May(ctx, namespace), nil
	})
	if err != nil {
		return pages.AnyRights, asError(err)
	}
	return may, nil
}

// askFrame asks what the frame of a page shows, while the page asks what it shows itself.
func (u *UI) askFrame(ctx context.Context, namespace string) {
	if u.o.Broker != nil {
		return
	}
	together(
		func() { _, _ = u.source.status(ctx) },
		func() {
			if may, unknown := u.rights(ctx, namespace); unknown == nil && may.AskCluster {
				_, _ = u.source.diagnosis(ctx)
			}
		},
	)
}

// view returns the frame of a page.
func (u *UI) view(ctx context.Context, r *http.Request, title string) pages.View {
	if u.o.Broker != nil {
		v := pages.View{Prefix: u.prefix, Path: r.URL.Path, Query: r.URL.Query(), Title: title, Cluster: "broker", Operator: true,
			Server: u.o.Server, User: u.o.User, Now: time.Now()}
		v.Done = u.message(r)
		return v
	}
	v := pages.View{Prefix: u.prefix, Path: r.URL.Path, Query: r.URL.Query(), Title: title, Context: u.o.Context,
		Server: u.o.Server, User: u.o.User, Namespaces: u.o.Namespaces, Now: u.o.Acts.Now(),
		AgentNamespace: u.o.Reads.AgentNamespace(ctx)}
	v.Namespace = namedNamespace(r)
	v.May, v.NoRights = u.rights(ctx, u.namespaceOf(r))
	if u.o.Away != nil {
		if since, err := u.o.Away(); err != nil {
			v.Banners = append(v.Banners, pages.Banner{Tone: pages.Bad, Fix: "kubectl get --raw /readyz",
				Text: "The API server does not answer: " + api.WithoutCode(err.Error()) + ". Its objects are shown as they were at " +
					since.UTC().Format("15:04:05") + " UTC."})
		}
	}
	var away []pages.Banner
	status, err := u.source.status(ctx)
	switch {
	case pages.IsLoading(asError(err)):
		v.NoCluster = asError(err)
	case err != nil:
		v.Banners = append(v.Banners, pages.Banner{Tone: pages.Bad, Fix: "bourse doctor",
			Text: "The agent does not answer: " + api.WithoutCode(err.Error()) + ". Objects of the cluster are shown."})
	case !status.Connected && status.Problem != "":
		why := status.Problem
		code, _, _ := strings.Cut(why, ": ")
		if v.May.AskCluster {
			why = ""
		}
		away = []pages.Banner{pages.NoBroker(why, api.Code(code).RefusesMember())}
	}
	if v.Cluster = u.self(ctx, status); v.Cluster != "" {
		v.NoCluster = nil
	}
	if v.NoRights != nil {
		v.NoProblems = v.NoRights
	} else if v.May.AskCluster {
		d, err := u.source.diagnosis(ctx)
		if v.NoProblems = pages.OnlyLoading(asError(err)); err == nil {
			v.Problems = append([]api.Problem{}, d.Problems...)
		}
	}
	if r.URL.Path != "/" || !v.Has(health.BrokerUnreachable) && !v.Has(health.NotAdmitted) { // Home says it once, with its remedy
		v.Banners = append(v.Banners, away...)
	}
	v.Done = u.message(r)
	return v
}

// self returns the ID of the cluster: that of the agent's status, else that which its objects name. Empty: it is not
// known, and nobody can say what was bought and what was sold.
func (u *UI) self(ctx context.Context, status api.AgentStatus) string {
	u.mu.Lock()
	name := cmp.Or(status.Cluster, u.name)
	u.mu.Unlock()
	if name == "" {
		name = u.o.Reads.ClusterName(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.name = name
	return name
}

// message returns what the act did that led to a page.
func (u *UI) message(r *http.Request) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.done {
		if m.id == r.URL.Query().Get("done") && time.Now().Before(m.until) {
			return m.text
		}
	}
	return ""
}

// notFound is shown for a page that does not exist.
func (u *UI) notFound(context.Context, *http.Request) content {
	return content{title: "No such page", status: http.StatusNotFound, body: pages.NotFound}
}

// asError returns an error as pages show it.
func asError(err error) *api.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*cluster.LoadingError](err); ok {
		stage := "the API server is asked whether you may list them"
		if e.Allowed {
			stage = "the API server sends them"
		}
		kinds := e.Kind + "s"
		if singular, is := strings.CutSuffix(e.Kind, "y"); is {
			kinds = singular + "ies"
		}
		return pages.Loads(kinds, stage, e.Since)
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	return api.Errorf(api.CodeUnavailable, "%s", err)
}
