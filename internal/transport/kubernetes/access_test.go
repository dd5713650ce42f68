package kubernetes_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://broker:6443"}}],
 contexts: [{name: c, context: {cluster: c, user: u, namespace: bourse-member-rome}}], users: [{name: u, user: USER}]}`

func write(t *testing.T, user string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := kubeconfig[:len(kubeconfig)-len("USER}]}")] + user + "}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAccess(t *testing.T) {
	var shown string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		shown = r.Header.Get("Authorization")
	}))
	defer server.Close()
	a, err := kubernetes.ReadAccess(write(t, "{token: secret}"), "")
	if err != nil || a.Namespace != "bourse-member-rome" || a.Config.Host != "https://broker:6443" || !a.Ends().IsZero() {
		t.Fatalf("%+v, %v", a, err)
	}
	a.Config.Host = server.URL
	c, err := rest.HTTPClientFor(a.Config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if shown != "Bearer secret" {
		t.Errorf("it shows %q", shown)
	}
	if a, err = kubernetes.ReadAccess(write(t, "{token: secret}"), "mine"); err != nil || a.Namespace != "mine" {
		t.Errorf("%+v, %v", a, err)
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1763755200}`))
	if a, err = kubernetes.ReadAccess(write(t, "{token: x."+claims+".y}"), ""); err != nil ||
		a.Ends().Unix() != 1763755200 {
		t.Errorf("the token ends %v, %v", a.Ends(), err)
	}
}

// The file comes from somebody else: it may not have this machine run anything.
func TestHostileKubeconfig(t *testing.T) {
	for name, user := range map[string]string{
		"a program":       "{exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}}",
		"an old provider": "{auth-provider: {name: gcp, config: {cmd-path: rm}}}",
		"a file of ours":  "{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}",
	} {
		if _, err := kubernetes.ReadAccess(write(t, user), ""); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, file := range []string{"nosuch", os.DevNull} {
		if _, err := kubernetes.ReadAccess(file, ""); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The broker's cluster cannot send the agent's calls, and the token in them, elsewhere.
func TestTheBrokersClusterRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s goes elsewhere with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	a, err := kubernetes.ReadAccess(write(t, "{token: secret}"), "")
	if err != nil {
		t.Fatal(err)
	}
	a.Config.Host = server.URL
	c, err := rest.HTTPClientFor(a.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(r); api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), other.URL) {
			t.Errorf("%s: %v", method, err)
		}
	}
}
