package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"html"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/bourse-dev/bourse/internal/ui/static"
)

// loginNeeded is the code with which a WebSocket without login is closed.
const loginNeeded websocket.StatusCode = 4403

// cookieName is the name of the cookie of a login.
const cookieName = "bourse"

// mostLogin is the largest body of a login, in bytes.
const mostLogin = 4 << 10

// Door lets the user of this machine into the pages, and nobody else: other users of the machine, other programs on
// other ports and pages of other origins reach the same address. A request needs the secret prefix of its path and
// the cookie, which both hold for one run of the program. A login gives both for a code that is valid once.
type Door struct {
	prefix, secret string
	address        string // the one that is listened on, such as 127.83.12.9
	inside         http.Handler

	mu    sync.Mutex
	codes map[string]bool // those that nobody used
	shown string          // the one that the terminal shows
}

// NewDoor makes a door of the pages that listen on an address of loopback.
func NewDoor(address string, inside func(prefix string) http.Handler) *Door {
	d := &Door{prefix: "/s/" + secret(), secret: secret(), address: address, codes: map[string]bool{}}
	d.inside = inside(d.prefix)
	return d
}

// secret returns 128 random bits in hexadecimal.
func secret() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // never fails
	return hex.EncodeToString(bits)
}

// Code returns the code that lets the next browser in, such as ABCD-EFGH-IJKL. It stays the same until it is used.
func (d *Door) Code() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.codes[d.shown] {
		d.shown = d.add()
	}
	return d.shown
}

// newCode returns a code that lets one browser in.
func (d *Door) newCode() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add()
}

// add adds a code of 60 bits.
func (d *Door) add() string {
	bits := make([]byte, 8)
	_, _ = rand.Read(bits) // never fails
	text := base32.StdEncoding.EncodeToString(bits)
	code := text[:4] + "-" + text[4:8] + "-" + text[8:12]
	d.codes[code] = true
	return code
}

// use reports whether a code lets its browser in, and ends it.
func (d *Door) use(code string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	code = strings.ToUpper(strings.TrimSpace(code))
	for known := range d.codes {
		if subtle.ConstantTimeCompare([]byte(known), []byte(code)) == 1 {
			delete(d.codes, known)
			return true
		}
	}
	return false
}

// headers are those of every answer. The referrer stays: without one, browsers send no origin with our own forms.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types bourse",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store",
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || !slices.Contains([]string{"127.0.0.1", "::1", "localhost", d.address}, host) {
		http.Error(w, "this address is not one of Bourse", http.StatusMisdirectedRequest)
		return
	}
	if host == "::1" || host == "localhost" { // another user of the machine may listen there
		if r.Method != http.MethodGet {
			http.Error(w, "use the link that the terminal prints", http.StatusMisdirectedRequest)
			return
		}
		http.Redirect(w, r, "http://127.0.0.1:"+port+r.URL.RequestURI(), http.StatusFound)
		return
	}
	if !sentByUs(r) {
		http.Error(w, "a page of another origin sent this", http.StatusForbidden)
		return
	}
	d.open(w, r)
}

// open serves a request that no page of another origin sent.
func (d *Door) open(w http.ResponseWriter, r *http.Request) {
	inside := strings.HasPrefix(r.URL.Path, d.prefix+"/")
	switch {
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		d.login(w, r)
	case r.URL.Path == "/favicon.ico" || r.URL.Path == "/door.js" || r.URL.Path == "/door.css":
		static.Serve(w, r, strings.Replace(strings.TrimPrefix(r.URL.Path, "/"), "favicon.ico", "icon.svg", 1))
	case inside && d.hasCookie(r):
		http.StripPrefix(d.prefix, d.inside).ServeHTTP(w, r)
	case isWebSocket(r):
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_ = c.Close(loginNeeded, "login")
		}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "log in first: use the link that the terminal prints", http.StatusForbidden)
	default:
		site := r.Header.Get("Sec-Fetch-Site")
		if inside && isNavigation(r) && site != "" && site != "same-origin" { // the strict cookie comes with the second request
			w.Header().Set("Refresh", "0; url="+r.URL.RequestURI())
		}
		d.showLogin(w, r, "")
	}
}

// sentByUs reports whether our own page, or the user by a link, sent a request.
func sentByUs(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || isWebSocket(r) {
		return origin == "http://"+r.Host ||
			r.URL.Path == "/login" && r.Method == http.MethodPost && origin == "null" && isNavigation(r) // a file logs in
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return isNavigation(r)
}

func isNavigation(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func isWebSocket(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }

// hasCookie looks at each cookie of the name: a server on another port may add its own.
func (d *Door) hasCookie(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(cookieName), func(c *http.Cookie) bool {
		return subtle.ConstantTimeCompare([]byte(c.Value), []byte(d.secret)) == 1
	})
}

// login lets a browser in. It answers 200 with Refresh: a strict cookie would not be sent on a redirect of a login from
// a file.
func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostLogin)
	if err := r.ParseForm(); err != nil || !d.use(r.PostForm.Get("code")) {
		d.showLogin(w, r, "This code is not valid, or was used. Press Enter in the terminal for another one.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: d.secret, Path: d.prefix + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	to := d.prefix + pathOf(r.PostForm.Get("to"))
	w.Header().Set("Refresh", "0; url="+to)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Bourse</title><link rel="stylesheet" href="/door.css">`+
		`<main><p><a href="`+html.EscapeString(to)+`">Continue to Bourse</a></p></main></html>`)
}

// pathOf returns the path that a form names as the next page, "/" for a text that is none.
func pathOf(to string) string {
	if !strings.HasPrefix(to, "/") || strings.ContainsFunc(to, func(c rune) bool { return c < ' ' }) {
		return "/"
	}
	return to
}

// showLogin shows the page that asks for a code, and goes on to the page that was asked for.
func (d *Door) showLogin(w http.ResponseWriter, r *http.Request, wrong string) {
	to := r.URL.RequestURI()
	if rest, ok := strings.CutPrefix(to, "/s/"); ok {
		if _, path, more := strings.Cut(rest, "/"); more {
			to = "/" + path
		}
	}
	if r.URL.Path == "/login" {
		to = r.PostForm.Get("to")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if wrong != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		wrong = `<p class="wrong" role="alert">` + html.EscapeString(wrong) + `</p>`
	}
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>Bourse: log in</title>`+
		`<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/door.css">`+
		`<script src="/door.js" defer></script><main><h1>Bourse</h1>`+wrong+
		`<form method="post" action="/login"><label for="code">Code</label>`+
		`<input id="code" name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" autofocus required `+
		`placeholder="ABCD-EFGH-IJKL"><input type="hidden" name="to" value="`+html.EscapeString(to)+`">`+
		`<button>Log in</button></form><p>The terminal in which <code>bourse ui</code> runs shows the code. `+
		`Press Enter there for another one.</p></main></html>`)
}
