package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// transport carries requests to the server within the process. Each request has a connection of its
// own, so that no goroutine stays when none is under way.
func (a *API) transport() http.RoundTripper {
	return &http.Transport{DialContext: a.dial, DisableKeepAlives: true}
}

// dial opens a connection to the server. Errors: ECONNREFUSED while the server is down.
func (a *API) dial(context.Context, string, string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return nil, fmt.Errorf("dial simulated server: %w", syscall.ECONNREFUSED)
	}
	client, server := net.Pipe()
	go func() { _ = http.Serve(&oneConnection{server}, a.Handler()) }() // ends at once; the connection goes on
	return client, nil
}

// oneConnection is a listener that accepts one connection.
type oneConnection struct{ conn net.Conn }

func (l *oneConnection) Accept() (net.Conn, error) {
	conn := l.conn
	if l.conn = nil; conn == nil {
		return nil, io.EOF
	}
	return conn, nil
}

func (l *oneConnection) Addr() net.Addr { return &net.UnixAddr{Name: "kubeapi", Net: "pipe"} }
func (l *oneConnection) Close() error   { return nil }
