package cli

import (
	"bytes"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// output is what a command printed until now.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var link = regexp.MustCompile(`(http://[0-9.:]+)/\ncode: (\S+) `)

// runUI runs `bourse ui` until the test ends or stop is called, and logs a browser in. page returns Home. The command is a
// process, as its log of client-go is that of the process.
func runUI(t *testing.T, args ...string) (page func() string, printed *output, stop func()) {
	t.Helper()
	printed = &output{}
	cmd := exec.Command("bourse", append([]string{"ui", "--no-open"}, args...)...)
	cmd.Stdout, cmd.Stderr = printed, printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		err := cmd.Process.Signal(os.Interrupt)
		if err := errors.Join(err, cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	var found []string
	for end := time.Now().Add(20 * time.Second); found == nil; time.Sleep(10 * time.Millisecond) {
		if found = link.FindStringSubmatch(printed.String()); found == nil && time.Now().After(end) {
			t.Fatalf("no link is printed: %s", printed)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	send := func(method, address string, form url.Values) (http.Header, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", found[1])
		}
		answer, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Header, html.UnescapeString(string(body))
	}
	header, _ := send(http.MethodPost, found[1]+"/login", url.Values{"code": {found[2]}, "to": {"/"}})
	_, to, _ := strings.Cut(header.Get("Refresh"), "url=")
	return func() string { _, body := send(http.MethodGet, found[1]+to, nil); return body }, printed, stop
}

// The namespaces of -n are those of later runs for the context, until -A. While the pages are served, they say that the
// kubeconfig gives the context another user.
func TestUIRemembersNamespacesAndSeesTheKubeconfigChange(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "settings"))
	for _, name := range []string{"BOURSE_SERVER", "KUBECONFIG", "SSH_CONNECTION"} {
		t.Setenv(name, "")
	}
	f, err := federation.Start(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler),
		&federation.Member{Options: sim.Options{Name: "rome", Nodes: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Stop() })
	file := filepath.Join(dir, "config")
	if err := f.WriteKubeconfig(file, f.Members["rome"]); err != nil {
		t.Fatal(err)
	}
	const showing, remembers = "Showing namespace", "namespaces of the last -n: team-a, team-b (others: bourse ui -n NS, all: bourse ui -A)\n"
	for _, c := range []struct {
		args        []string
		shows, says string
	}{
		{nil, "", ""},
		{[]string{"-n", "team-a,team-b"}, "Showing namespaces team-a, team-b", ""},
		{nil, "Showing namespaces team-a, team-b", remembers},
		{[]string{"-A"}, "", ""},
		{nil, "", ""},
	} {
		page, printed, stop := runUI(t, append(c.args, "--kubeconfig", file)...)
		if got := page(); !strings.Contains(got, c.shows) || c.shows == "" && strings.Contains(got, showing) {
			t.Errorf("%q: want %q:\n%s", c.args, c.shows, got)
		}
		if got := printed.String(); strings.Contains(got, "namespaces") != (c.says != "") || !strings.Contains(got, c.says) {
			t.Errorf("%q prints %q", c.args, got)
		}
		stop()
	}
	page, _, _ := runUI(t, "--kubeconfig", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("token: "), []byte("token: X")), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := page()
		if strings.Contains(got, "this context has another user") {
			if want := "bourse ui --kubeconfig " + file + " --context rome"; !strings.Contains(got, want) {
				t.Errorf("no %q:\n%s", want, got)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the pages do not say it:\n%s", got)
		}
	}
}
