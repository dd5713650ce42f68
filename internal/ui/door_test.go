package ui

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// inside answers what the door lets in.
func inside(prefix string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("inside " + r.URL.Path)) })
}

const here = "127.83.12.9:4000"

// send sends a request to the door as a browser would: headers are "Name: value".
func send(d *Door, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+here+path, strings.NewReader(body))
	r.Host = here
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func form(code, to string) string { return url.Values{"code": {code}, "to": {to}}.Encode() }

// own is the origin of our own pages.
const own = "Origin: http://" + here

// A code lets one browser in, which then has the prefix and the cookie; each alone opens nothing.
func TestLogin(t *testing.T) {
	d := NewDoor("127.83.12.9", inside)
	code := d.Code()
	if again := d.Code(); again != code {
		t.Errorf("an unused code changed from %s to %s", code, again)
	}
	w := send(d, "POST", "/login", form(strings.ToLower(code), "/borrowing?q=a&state=\"b\""), own)
	cookie := w.Header().Get("Set-Cookie")
	if w.Code != 200 || w.Header().Get("Refresh") != "0; url="+d.prefix+"/borrowing?q=a&state=\"b\"" {
		t.Fatalf("status %d, refresh %q", w.Code, w.Header().Get("Refresh"))
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=" + d.prefix + "/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	value, _, _ := strings.Cut(cookie, ";")
	if w := send(d, "POST", "/login", form(code, "/"), own); w.Code != 422 || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a used code: status %d, cookie %q", w.Code, w.Header().Get("Set-Cookie"))
	}
	for name, test := range map[string]struct {
		path    string
		headers []string
		inside  bool
	}{
		"prefix and cookie":                 {d.prefix + "/a", []string{"Cookie: " + value}, true},
		"a stranger's cookie beside ours":   {d.prefix + "/a", []string{"Cookie: bourse=evil; " + value}, true},
		"prefix alone":                      {d.prefix + "/a", nil, false},
		"cookie alone":                      {"/a", []string{"Cookie: " + value}, false},
		"another prefix":                    {"/s/0123/a", []string{"Cookie: " + value}, false},
		"a stranger's cookie":               {d.prefix + "/a", []string{"Cookie: bourse=evil"}, false},
		"the longest that the prefix hides": {d.prefix, []string{"Cookie: " + value}, false},
	} {
		w := send(d, "GET", test.path, "", test.headers...)
		if got := strings.HasPrefix(w.Body.String(), "inside"); got != test.inside {
			t.Errorf("%s: inside is %v: %.80s", name, got, w.Body)
		}
	}
}

// Requests of other origins, of other hosts and of frames neither read nor act.
func TestOtherOrigins(t *testing.T) {
	d := NewDoor("127.83.12.9", inside)
	value := "Cookie: bourse=" + d.secret
	page := d.prefix + "/a"
	for name, test := range map[string]struct {
		method  string
		headers []string
		status  int
	}{
		"own page":                       {"GET", []string{"Sec-Fetch-Site: same-origin"}, 200},
		"typed":                          {"GET", []string{"Sec-Fetch-Site: none"}, 200},
		"link of another site":           {"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		"frame of another port":          {"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		"fetch of another port":          {"GET", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, 403},
		"script of another site":         {"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		"own form":                       {"POST", []string{own}, 200},
		"form without an origin":         {"POST", nil, 403},
		"form of a file":                 {"POST", []string{"Origin: null", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		"form of another port":           {"POST", []string{"Origin: http://127.0.0.1:1", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		"own WebSocket":                  {"GET", []string{"Upgrade: websocket", own}, 200},
		"WebSocket of another origin":    {"GET", []string{"Upgrade: websocket", "Origin: http://127.0.0.1:1"}, 403},
		"WebSocket without an origin":    {"GET", []string{"Upgrade: websocket"}, 403},
		"rebinding":                      {"GET", []string{"Host: evil.example:4000"}, 421},
		"no port":                        {"GET", []string{"Host: 127.83.12.9"}, 421},
		"another address of loopback":    {"GET", []string{"Host: 127.83.12.8:4000"}, 421},
		"a relay on another port":        {"GET", []string{"Host: 127.0.0.1:9"}, 200},
		"a form through a relay":         {"POST", []string{"Host: 127.0.0.1:9", "Origin: http://127.0.0.1:9"}, 200},
		"localhost":                      {"GET", []string{"Host: localhost:4000"}, 302},
		"a form to localhost":            {"POST", []string{"Host: localhost:4000", "Origin: http://localhost:4000"}, 421},
		"IPv6, where another may listen": {"GET", []string{"Host: [::1]:4000"}, 302},
	} {
		w := send(d, test.method, page, "", append(test.headers, value)...)
		if w.Code != test.status {
			t.Errorf("%s: status %d, want %d: %.80s", name, w.Code, test.status, w.Body)
		}
		for header, want := range headers {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
	}
}

// A file of the user's runtime folder logs in; no other page without an origin does, and a login leads to our own pages
// alone.
func TestLoginFromAFile(t *testing.T) {
	d := NewDoor("127.83.12.9", inside)
	if w := send(d, "POST", "/login", form(d.Code(), "/"), "Origin: null", "Sec-Fetch-Mode: cors"); w.Code != 403 {
		t.Errorf("a script without an origin: status %d", w.Code)
	}
	for _, to := range []string{"//evil.example/", "https://evil.example/", "", "/a\r\nSet-Cookie: x=y"} {
		w := send(d, "POST", "/login", form(d.newCode(), to), "Origin: null", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
		if at := w.Header().Get("Refresh"); w.Code != 200 || !strings.HasPrefix(at, "0; url="+d.prefix+"/") {
			t.Errorf("to %q: status %d, refresh %q", to, w.Code, at)
		}
	}
}

// A link from elsewhere comes without the strict cookie. The second request, which is the page's own, has it.
func TestLinkFromElsewhere(t *testing.T) {
	d := NewDoor("127.83.12.9", inside)
	w := send(d, "GET", d.prefix+"/a?b=c", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
	if got := w.Header().Get("Refresh"); got != "0; url="+d.prefix+"/a?b=c" {
		t.Errorf("refresh %q", got)
	}
	w = send(d, "GET", d.prefix+"/a?b=c", "", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
	if got := w.Header().Get("Refresh"); got != "" {
		t.Errorf("it would reload for ever: refresh %q", got)
	}
}

// Another user of the machine learns a code neither from the arguments of the browser nor from a file.
func TestTheFileOfALoginIsItsOwnersAlone(t *testing.T) {
	l, err := Listen("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s, err := StartOperator(nil, "hall", l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.WriteLogin(filepath.Join(t.TempDir(), "ui"), "/members")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has the mode %s, %v", path, info.Mode(), err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`name="code" value="([^"]+)"`).FindSubmatch(page)
	if code == nil || strings.Contains(file, string(code[1])) {
		t.Fatalf("%s has the code %q", file, code)
	}
	headers := []string{"Host: " + l.Addr().String(), "Origin: null", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	if w := send(s.door, "POST", "/login", form(string(code[1]), "/"), headers...); w.Code != http.StatusOK {
		t.Errorf("the file: status %d", w.Code)
	}
	if w := send(s.door, "POST", "/login", form(string(code[1]), "/"), headers...); w.Code == http.StatusOK {
		t.Error("a used code lets another browser in")
	}
}
