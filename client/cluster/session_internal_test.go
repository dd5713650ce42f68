package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
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
