package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// The ports of the pod.
const (
	echoes  = 1
	refused = 2
)

// server is an API server behind a proxy that lets no WebSocket through. test/policies has a real one.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	conns []httpstream.Connection
	seen  map[string]httpstream.Stream // error streams, by request
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{seen: map[string]httpstream.Stream{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/bourse/pods/agent/portforward" {
			http.Error(w, "no WebSockets here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Error(err)
			return
		}
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, s.serve)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, conn)
	}))
	t.Cleanup(func() {
		s.end()
		s.Close()
	})
	return s
}

// end ends all connections.
func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// serve is what a kubelet does with a stream.
func (s *server) serve(stream httpstream.Stream, replied <-chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
	if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
		s.seen[id] = stream
		return nil
	}
	reasons := s.seen[id]
	go func() {
		<-replied
		if stream.Headers().Get(corev1.PortHeader) == "2" {
			_, _ = io.WriteString(reasons, "connection refused\n")
		} else {
			_, _ = io.Copy(stream, stream)
		}
		_ = reasons.Close()
		_ = stream.Close()
	}()
	return nil
}

func open(t *testing.T, s *server) *cluster.Pod {
	t.Helper()
	pod, err := cluster.OpenPod(t.Context(), &rest.Config{Host: s.URL}, "bourse", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Close() })
	return pod
}

func dial(t *testing.T, pod *cluster.Pod, port uint16) net.Conn {
	t.Helper()
	conn, err := pod.Dial(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Where no WebSocket comes through, SPDY does. Connections side by side carry what is theirs.
func TestWithoutWebSockets(t *testing.T) {
	pod := open(t, startServer(t))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			conn, err := pod.Dial(t.Context(), echoes)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			want := bytes.Repeat([]byte{byte(i)}, 10_000)
			if _, err := conn.Write(want); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d reads something else: %v", i, err)
			}
		})
	}
	all.Wait()
}

// What ends a connection is told apart: the node, with its reason, the API server, and the user.
func TestHowConnectionsEnd(t *testing.T) {
	s := startServer(t)
	pod := open(t, s)
	_, err := dial(t, pod, refused).Read(make([]byte, 1))
	want := "port 2 of pod bourse/agent: connection refused"
	if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("nobody listens: %v", err)
	}
	closed := dial(t, pod, echoes)
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	if n, err := closed.Read(make([]byte, 1)); err == nil {
		t.Errorf("a closed connection reads %d bytes", n)
	}
	conn := dial(t, pod, echoes)
	s.end()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the API server ends: %v", err)
	}
	if _, err := pod.Dial(t.Context(), echoes); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a dial after the end: %v", err)
	}
}

// An API server that does not answer holds up nobody longer than the context.
func TestASilentServer(t *testing.T) {
	begun := make(chan struct{}, 2)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	_, err := cluster.OpenPod(ctx, &rest.Config{Host: silent.URL}, "bourse", "agent")
	if api.CodeOf(err) != api.CodeUnavailable {
		t.Error(err)
	}
	silent.CloseClientConnections()
}
