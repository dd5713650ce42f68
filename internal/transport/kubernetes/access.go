package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/api"
)

// reread is the interval at which a kubeconfig is read again: its token ends, and is replaced before.
const reread = 30 * time.Second

// Access configures how a member reaches its objects in the broker's cluster.
type Access struct {
	Config    *rest.Config
	Namespace string

	token *token // nil: no token
}

// Ends returns the end of the token; zero if it has none or does not name it.
func (a *Access) Ends() time.Time {
	if a.token == nil {
		return time.Time{}
	}
	parts := strings.Split(a.token.current(), ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}

// ReadAccess reads the kubeconfig that a broker's operator gave to a member: the API server of the broker's
// cluster, and the member's namespace, unless another is given. It reads a token in it again in intervals.
// Errors: Invalid with the flag.
func ReadAccess(file, namespace string) (*Access, error) {
	if within, ok := strings.CutPrefix(file, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, api.Invalid("--broker-kubeconfig", "%s", err).Fix("name the file by its whole path")
		}
		file = filepath.Join(home, within)
	}
	loaded, err := load(file)
	var config *rest.Config
	if err == nil {
		config, err = loaded.ClientConfig()
	}
	if err != nil {
		return nil, api.Invalid("--broker-kubeconfig", "%s", err).
			Fix("name the file that the broker's operator made: bourse broker kubeconfig CLUSTER")
	}
	// the credential is elsewhere
	if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" {
		return nil, api.Invalid("--broker-kubeconfig", "%s has this machine run a program or show another file to get in",
			file).Fix("use a kubeconfig with a token in it: bourse broker kubeconfig CLUSTER")
	}
	if namespace == "" {
		if namespace, _, err = loaded.Namespace(); err != nil {
			return nil, api.Invalid("--broker-kubeconfig", "%s", err).Fix("give --broker-namespace")
		}
	}
	a := &Access{Config: config, Namespace: namespace}
	if config.BearerToken != "" {
		a.token = &token{file: file, text: config.BearerToken, read: time.Now()}
		config.BearerToken = ""
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{a.token, next} })
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return straight{next} })
	config.QPS = -1 // the API server limits fairly; a limit here would only delay users
	return a, nil
}

// load reads only the kubeconfig: an empty one does not fall back to the pod's own service account.
func load(file string) (clientcmd.ClientConfig, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return clientcmd.NewClientConfigFromBytes(text)
}

// token is the token in a kubeconfig.
type token struct {
	file string
	mu   sync.Mutex
	text string
	read time.Time
}

func (t *token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.read) < reread {
		return t.text
	}
	t.read = time.Now()
	loaded, err := load(t.file)
	if err != nil {
		return t.text // the file is being replaced
	}
	if config, err := loaded.ClientConfig(); err == nil && config.BearerToken != "" {
		t.text = config.BearerToken
	}
	return t.text
}

// bearer sends a token.
type bearer struct {
	token *token
	next  http.RoundTripper
}

// straight follows no redirect: the token and the calls go only to the kubeconfig's API server.
type straight struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. Errors: Unavailable for an answer that redirects.
func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err != nil || answer.StatusCode < 300 || answer.StatusCode >= 400 || answer.Header.Get("Location") == "" {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, api.Errorf(api.CodeUnavailable, "%s answered %s, to %.200q: redirects are not followed",
		r.URL.Host, answer.Status, answer.Header.Get("Location")).
		Fix("ask the broker's operator for a kubeconfig that names the API server itself: bourse broker kubeconfig CLUSTER")
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token.current())
	return b.next.RoundTrip(r)
}
