package ui

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// aKubeconfig has the context rome, with a namespace and a token.
const aKubeconfig = `apiVersion: v1
kind: Config
current-context: rome
clusters:
- {name: rome, cluster: {server: "https://rome:6443", certificate-authority: ca.crt, extensions: [{name: started, extension: {at: "1"}}]}}
contexts:
- {name: rome, context: {cluster: rome, user: ann, namespace: team}}
users:
- {name: ann, user: {token: secret-1}}
`

// edited is aKubeconfig with other texts.
func edited(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(aKubeconfig) }

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The pages say when the kubeconfig gets another meaning for their context, and nothing when only its text changes.
func TestAChangedKubeconfigIsShown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	put(t, file, aKubeconfig)
	nobody := cluster.At(client.New("unix://"+t.TempDir()+"/nobody", nil), nil)
	u := New(Options{Reads: nobody, Acts: nobody, Log: slog.New(slog.DiscardHandler),
		May: func(context.Context, string) pages.Rights { return pages.Rights{} }}, "/s/0")
	defer u.Close()
	u.kubeconfig = NewKubeconfig([]string{file}, "rome", api.Command{"bourse", "ui", "--context", "rome"})
	at, shown := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), 0
	page := func() string {
		for range 2 {
			at = at.Add(lookEvery)
			u.kubeconfig.look(at, func() { shown++ })
		}
		w := httptest.NewRecorder()
		u.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/brokers", nil))
		return html.UnescapeString(w.Body.String())
	}
	const same = ""
	for _, c := range []struct{ name, text, says string }{
		{"nothing", aKubeconfig, same},
		{"another user's token", edited("secret-1", "secret-2"), "changed at 12:00:15 UTC: this context has another user."},
		{"the first text again", aKubeconfig, same},
		{"another server", edited("rome:6443", "rome:7443"), "this context has another cluster."},
		{"another certificate", edited("ca.crt", "other.crt"), "this context has another cluster."},
		{"another namespace", edited("namespace: team", "namespace: hers"), "this context has another default namespace."},
		{"another current context", edited("current-context: rome", "current-context: milan"), same},
		{"another context", edited("contexts:\n", "contexts:\n- {name: milan, context: {cluster: rome, user: bob}}\n"), same},
		{"other names", edited("user: ann", "user: bob", "{name: ann", "{name: bob"), same},
		{"a note", edited(`at: "1"`, `at: "2"`), same},
		{"an absolute path", edited("ca.crt", filepath.Join(dir, "ca.crt")), same},
		{"no context", edited("- {name: rome, context", "- {name: paris, context"), "The kubeconfig has no such context since "},
		{"no user", edited("name: ann", "name: bob"), "this context has another user."},
		{"no kubeconfig", "token: secret-3: [", "The kubeconfig cannot be parsed since "},
		{"too much", aKubeconfig + "#" + strings.Repeat("x", mostKubeconfig), "The kubeconfig is larger than 1024 KiB since "},
		{"the first text again", aKubeconfig, same},
		{"no file", "", "The kubeconfig is gone since "},
	} {
		put(t, file, c.text)
		if c.name == "no file" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		got := page()
		if c.says == same && strings.Contains(got, "The kubeconfig") || !strings.Contains(got, c.says) {
			t.Errorf("%s: want %q:\n%s", c.name, c.says, got)
		}
		if c.says != same && (!strings.Contains(got, "File: "+file) || !strings.Contains(got, "<code>bourse ui --context rome</code>")) {
			t.Errorf("%s: the page names no file and no command:\n%s", c.name, got)
		}
		if strings.Contains(got, "secret-") {
			t.Errorf("%s: the page has a secret", c.name)
		}
	}
	if shown != 12 { // texts with the meaning of the one before show nothing
		t.Errorf("the pages are rendered %d times", shown)
	}
}

// Parts of a context may be in several files. A file that is not there yet counts once it is, and one without the context's
// parts may go.
func TestAKubeconfigOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	first, second, third := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "third")
	put(t, second, edited("secret-1", "secret-2", "{name: rome, context", "{name: other, context"))
	put(t, third, aKubeconfig)
	k := NewKubeconfig([]string{first, second, third}, "rome", nil)
	says := func() string {
		k.look(time.Now(), func() {})
		k.look(time.Now(), func() {})
		if b := k.banners(); len(b) > 0 {
			return b[0].Text
		}
		return ""
	}
	put(t, first, "{apiVersion: v1, kind: Config}")
	if got := says(); got != "" {
		t.Errorf("a file without parts: %q", got)
	}
	put(t, third, edited("secret-1", "secret-3"))
	if got := says(); got != "" {
		t.Errorf("a user that the file before decides: %q", got)
	}
	const user = "{apiVersion: v1, kind: Config, users: [{name: ann, user: {token: %s}}]}"
	put(t, first, fmt.Sprintf(user, "secret-2"))
	if got := says(); got != "" {
		t.Errorf("the same user in another file: %q", got)
	}
	put(t, first, fmt.Sprintf(user, "secret-4"))
	if got := says(); !strings.Contains(got, "another user") || !strings.HasSuffix(got, "File: "+first) {
		t.Errorf("a new file before the others: %q", got)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if got := says(); got != "" {
		t.Errorf("that file gone: %q", got)
	}
	if err := os.Remove(third); err != nil {
		t.Fatal(err)
	}
	if got := says(); !strings.Contains(got, "is gone") || !strings.HasSuffix(got, "File: "+third) {
		t.Errorf("the file of the context gone: %q", got)
	}
}

// A pipe is read once: a second read could wait for ever. A file that is being written counts when it is whole.
func TestAKubeconfigThatIsWritten(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	_, _ = writes.WriteString(aKubeconfig)
	_ = writes.Close()
	if k := NewKubeconfig([]string{fmt.Sprint("/dev/fd/", reads.Fd())}, "rome", nil); k != nil {
		t.Error("a pipe is read again")
	}
	file := filepath.Join(t.TempDir(), "config")
	put(t, file, aKubeconfig)
	k := NewKubeconfig([]string{file}, "rome", nil)
	for _, text := range []string{"", aKubeconfig[:60], aKubeconfig} {
		put(t, file, text)
		k.look(time.Now(), func() { t.Errorf("%q counts", text) })
	}
}
