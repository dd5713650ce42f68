package cli

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// An agent with the prototype's flags: an empty transport, so it joins no broker although other
// flags name one, and another name and namespace for its Advertisement. The pages subscribe with the
// token of its listener.
func TestAgentWithThePrototypesFlags(t *testing.T) {
	cluster, err := sim.NewCluster(t.Context(), sim.Options{Name: "rome", Nodes: 1, Types: federation.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cluster.API.Handler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	kubeconfig, socket := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "agent.sock")
	address, token := freeAddress(), filepath.Join(dir, "token")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"rome": {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{"rome": {Cluster: "rome"}}, CurrentContext: "rome",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	cmd := exec.CommandContext(t.Context(), "bourse", "agent", "--kubeconfig", kubeconfig, "--cluster-id", "rome",
		"--identity-dir", filepath.Join(dir, "keys"), "--socket", socket,
		"--broker-transport=", "--broker-url", "https://127.0.0.1:1",
		"--advertisement-name", "shown", "--advertisement-namespace", "prototype",
		"--listen", address, "--token-file", token, "--distributed-catalog")
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // t's context is over by then
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 0 || t.Failed() {
			t.Errorf("the agent: %v\n%s", err, said)
		}
	})
	objects, err := kube.New(cluster.API.Config(), kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	agent := client.New("unix://"+socket, nil)
	waitFor(t, "the agent runs without a broker, and its Advertisement has that name", func() bool {
		s, err := agent.Status(t.Context())
		return err == nil && s.Broker == "" && !s.Connected &&
			objects.Get(t.Context(), kube.ObjectKey{Namespace: "prototype", Name: "shown"}, &api.Advertisement{}) == nil
	})
	var all api.AdvertisementList
	if err := objects.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Errorf("%d Advertisements, %v", len(all.Items), err)
	}
	waitFor(t, "it listens at --listen, too", func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	})
	secret, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	for shown, allowed := range map[string]bool{strings.TrimSpace(string(secret)): true, "another-token-of-16": false, "": false} {
		if err := subscribe(t, address, shown); (err == nil) != allowed {
			t.Errorf("with token %q: %v", shown, err)
		}
	}
}

// subscribe opens the prototype's WebSocket at --listen. An empty token is not shown.
func subscribe(t *testing.T, address, token string) error {
	t.Helper()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	c, answer, err := websocket.Dial(t.Context(), "ws://"+address+"/api/subscribe", &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		return c.CloseNow()
	}
	if answer != nil && answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("with token %q: %s", token, answer.Status)
	}
	return err
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 90 s: %s", what)
		}
	}
}
