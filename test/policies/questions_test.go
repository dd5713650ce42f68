package policies

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/identity/pinned"
)

// The ports of the agent's pod: at the first it answers, at the second nobody listens, the third is none of KWOK's.
const (
	questions = 8443
	mutePort  = 9443
	noPort    = 7
)

func newKey(t *testing.T) *pinned.Key {
	t.Helper()
	k, err := pinned.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answer stands for the agent: it answers who knows its key, and whose key it knows.
func (w *world) answer(t *testing.T, server, client *pinned.Key) {
	t.Helper()
	l, err := tls.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", w.listens),
		server.ServerTLS(func(hash string) bool { return hash == client.Hash() }))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := pinned.Peer(*r.TLS)
		fmt.Fprint(w, r.URL.Path, " of ", peer, err)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

// openAs opens the agent's pod as a user, and closes it at the end of the test.
func openAs(t *testing.T, config *rest.Config) *cluster.Pod {
	t.Helper()
	pod, err := cluster.OpenPod(t.Context(), config, api.Namespace, agentPod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Close() })
	return pod
}

// ask asks for a path through a port, with a connection of its own.
func ask(ctx context.Context, pod *cluster.Pod, port uint16, key *pinned.Key, server, path string) (string, error) {
	transport := &http.Transport{TLSClientConfig: key.ClientTLS(server), DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pod.Dial(ctx, port) }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://agent"+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// withoutWebSockets is a way to the API server on which a proxy refuses WebSockets. It lets SPDY through.
func withoutWebSockets(t *testing.T, config *rest.Config) *rest.Config {
	t.Helper()
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, NextProtos: []string{"http/1.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	config.Host, config.TLSClientConfig = "http://"+l.Addr().String(), rest.TLSClientConfig{}
	return config
}

// listening returns the TCP ports at which this process listens.
func listening(t *testing.T) (all []string) {
	t.Helper()
	sockets := map[string]bool{} // inodes
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && sockets[f[9]] {
				all = append(all, f[1])
			}
		}
	}
	return all
}

// A user whose only right is to port-forward in the agent's namespace asks the agent in its pod, each by the other's
// key, through streams of the API server: no port is opened on the user's machine. By WebSocket, and by SPDY.
func TestQuestionsThroughTheAPIServer(t *testing.T) {
	w := start(t)
	w.runPods(t)
	if err := w.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "questioners"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "bourse-port-forward"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "questioner"}}}); err != nil {
		t.Fatal(err)
	}
	server, client, other := newKey(t), newKey(t), newKey(t)
	w.answer(t, server, client)
	w.eventually(t, "the binding is known", func() error {
		pod, err := cluster.OpenPod(t.Context(), w.configOf("questioner"), api.Namespace, agentPod)
		if err == nil {
			err = pod.Close()
		}
		return err
	})
	for way, config := range map[string]*rest.Config{
		"WebSocket": w.configOf("questioner"), "SPDY": withoutWebSockets(t, w.configOf("questioner")),
	} {
		t.Run(way, func(t *testing.T) {
			before := listening(t)
			pod := openAs(t, config)
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					path := fmt.Sprint("/question-", i)
					text, err := ask(t.Context(), pod, questions, client, server.Hash(), path)
					if want := path + " of " + client.Hash() + "<nil>"; err != nil || text != want {
						t.Errorf("question %d is answered %q, %v", i, text, err)
					}
				})
			}
			all.Wait()
			if after := listening(t); len(after) != len(before) {
				t.Errorf("this process listens at %v, and did at %v", after, before)
			}
			for what, c := range map[string]struct {
				port   uint16
				key    *pinned.Key
				server string
				says   string
			}{
				"another server":       {questions, client, other.Hash(), "is not known here"},
				"another client":       {questions, other, server.Hash(), "bad certificate"},
				"where nobody listens": {mutePort, client, server.Hash(), "connection refused"},
				"an unknown port":      {noPort, client, server.Hash(), "port 7 of pod bourse/" + agentPod + ": "},
			} {
				if text, err := ask(t.Context(), pod, c.port, c.key, c.server, "/"); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %q, %v", what, text, err)
				}
			}
			if _, err := ask(t.Context(), pod, questions, client, server.Hash(), "/still"); err != nil {
				t.Errorf("after these failures: %v", err)
			}
			config = rest.CopyConfig(config)
			config.Impersonate.UserName = "somebody-else"
			_, err := cluster.OpenPod(t.Context(), config, api.Namespace, agentPod)
			if api.CodeOf(err) != api.CodeForbidden || !strings.Contains(err.Error(), "bourse-port-forward") {
				t.Errorf("without the right: %v", err)
			}
		})
	}
}
