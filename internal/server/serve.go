package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ListenSocket opens a unix socket that only its owner can use, in place of one that nobody serves any more.
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

// grace is how long a listener that ends waits for calls, and then for watches.
const grace = 5 * time.Second

// Serve serves until ctx ends, then lets calls that have begun end. Whoever ends it ends its watches, too.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	lines := &lines{lasting: lasting}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: maxWire, IdleTimeout: 2 * time.Minute,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, &connection{lines: lines})
		},
	}
	closeUnused(s)
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
	defer time.AfterFunc(grace, end).Stop()
	lines.open.Wait()
	return nil
}

// closeUnused makes a server that stops close connections on which nothing was ever asked, which clients open in
// advance: Shutdown waits five seconds for each of them.
func closeUnused(s *http.Server) {
	var unused sync.Map
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			unused.Store(c, nil)
		} else {
			unused.Delete(c)
		}
	}
	s.RegisterOnShutdown(func() {
		unused.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
	})
}
