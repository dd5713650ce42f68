package ui

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// stranger is a page of somebody else that the user's browser opens. It knows the prefix, which it should not.
type stranger struct {
	*httptest.Server
	mu      sync.Mutex
	cookies []string // that the browser sent it
}

func startStranger(t *testing.T, address string) *stranger {
	t.Helper()
	s := &stranger{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.cookies = append(s.cookies, r.Header.Values("Cookie")...)
		s.mu.Unlock()
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(worker))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>stranger</title><h1>stranger</h1>"))
	}))
	l, err := net.Listen("tcp", address)
	must(t, err)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// worker answers each request of its origin, also when no server is there any more.
const worker = `addEventListener("install", (e) => e.waitUntil(skipWaiting()))
addEventListener("fetch", (e) => e.respondWith(new Response("<h1>taken</h1>", {headers: {"Content-Type": "text/html"}})))`

// tries are scripts of a stranger's page. Each returns what it got, "" for nothing.
var tries = map[string]string{
	"read by fetch": `fetch(PAGES + "/borrowing", {credentials: "include"}).then((r) => r.text()).catch(() => "")`,
	"read by fetch without CORS": `fetch(PAGES + "/borrowing", {credentials: "include", mode: "no-cors"})
		.then((r) => r.text()).catch(() => "")`,
	"read by a WebSocket": `new Promise((done) => {
		const s = new WebSocket(PAGES.replace("http", "ws") + "/live");
		s.onopen = () => s.send("/borrowing"); s.onmessage = (m) => done(m.data); s.onclose = s.onerror = () => done("") })`,
	"read by a frame": `new Promise((done) => {
		const f = document.createElement("iframe"); f.src = PAGES + "/borrowing";
		f.onload = () => { try { done(f.contentDocument?.querySelector("main")?.innerText || "") } catch { done("") } };
		document.body.append(f); setTimeout(() => done(""), 3000) })`,
	"read by a script": `new Promise((done) => {
		const s = document.createElement("script"); s.src = PAGES + "/static/app.js";
		s.onload = () => done("it ran"); s.onerror = () => done(""); document.body.append(s) })`,
	"act by fetch": `fetch(PAGES + "/requests/team/coveted/release", {method: "POST", credentials: "include",
		mode: "no-cors", headers: {"Content-Type": "application/x-www-form-urlencoded"}, body: FORM})
		.then(() => "").catch(() => "")`,
	"act by a form in a frame": `new Promise((done) => {
		const i = document.createElement("iframe"); i.name = "hidden"; document.body.append(i);
		const f = document.createElement("form"); f.method = "post"; f.target = "hidden";
		f.action = PAGES + "/requests/team/coveted/release";
		for (const [name, value] of new URLSearchParams(FORM)) {
			const e = document.createElement("input"); e.name = name; e.value = value; f.append(e) }
		document.body.append(f); f.submit(); setTimeout(() => done(""), 1500) })`,
}

// Pages of other origins that the same browser opens neither read nor act, also if they know the prefix: those of the
// same address with another port, and of other names of this machine. None is sent the cookie.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	shared.request(t, "coveted", small())
	s := shared.pages(t, "rome", "")
	b := tab(t, s, 1280)
	must(t, b.Go("/requests/team/coveted?panel=release"))
	must(t, b.See("Release"))
	home, err := browser.Eval[string](b, `location.origin + location.pathname.match(/^\/s\/[0-9a-f]+/)[0]`)
	must(t, err)
	form, err := browser.Eval[string](b,
		`new URLSearchParams([...new FormData(document.querySelector("section.panel form"))]).toString()`)
	must(t, err)
	if !strings.Contains(form, "revision=") {
		t.Fatalf("the form is %q", form)
	}
	u, err := url.Parse(s.URL())
	must(t, err)
	beside, local := startStranger(t, u.Hostname()+":0"), startStranger(t, "127.0.0.1:0")
	port := local.Listener.Addr().(*net.TCPAddr).Port
	for _, origin := range []string{beside.URL, local.URL, fmt.Sprintf("http://localhost:%d", port),
		fmt.Sprintf("http://pages.localhost:%d", port)} {
		for what, script := range tries {
			must(t, b.Open(origin+"/"))
			got, err := browser.Await[string](b,
				fmt.Sprintf(`(() => { const PAGES = %q, FORM = %q; return %s })()`, home, form, script))
			if err != nil || got != "" {
				t.Errorf("%s: %s got %.200q, %v", origin, what, got, err)
			}
		}
	}
	for _, other := range []*stranger{beside, local} {
		other.mu.Lock()
		if len(other.cookies) > 0 {
			t.Errorf("a stranger is sent %.80q", other.cookies)
		}
		other.mu.Unlock()
	}
	// A name that leads here, as after rebinding.
	_, relayed, err := net.SplitHostPort(startRelay(t, u.Host).Addr().String())
	must(t, err)
	must(t, b.Open("http://rebound.localhost:"+relayed+strings.TrimPrefix(home, u.Scheme+"://"+u.Host)+"/borrowing"))
	text, err := browser.Eval[string](b, `document.body.innerText`)
	if err != nil || !strings.Contains(text, "not one of Bourse") {
		t.Errorf("a name that leads here shows %s, %v", text, err)
	}
	time.Sleep(time.Second)
	if asked, err := shared.Members["rome"].People.Request(t.Context(), "team", "coveted"); err != nil {
		t.Errorf("what strangers wanted to release is %v, %v", asked, err)
	}
	must(t, b.Open(home+"/requests/team/coveted?panel=release"))
	must(t, b.See("coveted"))
	b.Faults() // the strangers' own
}

// A program that had an address and a port before can leave a worker, which answers whatever is served there later. So
// each run has an address of its own, and that worker gets nothing.
func TestAFormerHolder(t *testing.T) {
	l, err := ui.Listen("", 0)
	must(t, err)
	former := l.Addr().String()
	must(t, l.Close())
	holder := startStranger(t, former)
	s := shared.pages(t, "rome", "")
	b := newTab(t, 1280)
	must(t, b.Open(holder.URL+"/"))
	_, err = browser.Await[string](b, `navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready)
		.then(() => "registered")`)
	must(t, err)
	holder.Close()
	must(t, b.Open(holder.URL+"/borrowing"))
	must(t, b.See("taken"))
	must(t, b.Login(s.URL(), s.Code()))
	if u, err := url.Parse(s.URL()); err != nil || strings.HasPrefix(former, u.Hostname()+":") {
		t.Errorf("two runs had the address %s, %v", s.URL(), err)
	}
	b.Faults() // the holder's own
}
