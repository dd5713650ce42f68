package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A connection that does not take what is written to it is hung up before it is closed.
func TestABrokenConnectionIsHungUp(t *testing.T) {
	hungUp, closed := make(chan struct{}), make(chan struct{})
	client, server := net.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, server, 1)
		_, _ = io.WriteString(server, "HTTP/1.1 204 No Content\r\n\r\n")
		_, _ = io.Copy(io.Discard, server)
	}()
	c := &connection{hangUp: func() { close(hungUp) }, asker: &Asker{}}
	c.http = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &stuck{Conn: client, until: hungUp, closed: closed}, nil
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.http.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	done := make(chan error, 1)
	go func() { done <- c.close(t.Context()) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		close(hungUp)
		t.Error("it waits for a connection that takes nothing")
	}
	<-closed
	_ = server.Close()
}

// stuck is a connection that cannot be closed before it is hung up.
type stuck struct {
	net.Conn
	until  chan struct{}
	closed chan struct{}
}

func (s *stuck) Close() error {
	<-s.until
	defer close(s.closed)
	return s.Conn.Close()
}

// A session names the namespace of the agent's pod. One that names none is of an agent in the usual namespace.
func TestTheWayToAPodOfAnotherNamespace(t *testing.T) {
	var asked atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(&r.URL.Path)
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	for address, want := range map[string]string{"pod:agent-1:8443": "bourse", "pod:platform-x/agent-1:8443": "platform-x"} {
		c := &connection{address: address, asker: &Asker{config: &rest.Config{Host: server.URL}}}
		if err := c.route(t.Context()); err == nil {
			t.Error("it reaches a pod")
		}
		if path := asked.Load(); path == nil || *path != "/api/v1/namespaces/"+want+"/pods/agent-1/portforward" {
			t.Errorf("%s leads to %v", address, path)
		}
		if user := (&Client{askers: []*Asker{c.asker}, home: &home{}}); user.AgentNamespace(t.Context()) != want {
			t.Errorf("%s is in %s", address, user.AgentNamespace(t.Context()))
		}
	}
}
