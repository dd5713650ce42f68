package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ListenSocket opens a unix socket that only its owner can use. It replaces a socket that no process serves.
func ListenSocket(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("socket %s is served by another process: stop that one, or choose another path", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// grace is the time that a listener that ends gives to calls and watches.
const grace = 5 * time.Second

// Serve serves until ctx ends, and then lets started calls end. Watches are calls: end them first. It
// bounds the connections and calls of peers.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, newLimitedListener(l, Bounds{}), h, Bounds{})
}

// ServeTLS is Serve with TLS and other bounds. The listener must be without TLS.
func ServeTLS(ctx context.Context, l net.Listener, config *tls.Config, h http.Handler, b Bounds) error {
	return serve(ctx, tls.NewListener(newLimitedListener(l, b), config), h, b)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, b Bounds) error {
	s := newServer(h, b)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
	})
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// Bounded returns a listener without TLS and a server for it, within the bounds of [Serve], for callers
// that run the server themselves.
func Bounded(l net.Listener, h http.Handler) (net.Listener, *http.Server) {
	return newLimitedListener(l, Bounds{}), newServer(h, Bounds{})
}

func newServer(h http.Handler, b Bounds) *http.Server {
	return &http.Server{
		Handler: endSlowAnswers(endSlowBodies(h, b.orDefault()), b), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxWire, ErrorLog: log.New(httpLog{}, "", 0),
		ConnContext: withConn, ConnState: setState,
	}
}

// httpLog receives net/http's log. It only counts handshake errors, because anyone could fill the log with
// them.
type httpLog struct{}

// Write implements io.Writer.
func (httpLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		refused("handshakes")
	} else {
		slog.Warn(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
