package agent

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/server"
)

// localRate bounds the calls a second on the local listener.
const localRate = 200

// listen serves the people of the cluster on the socket, and on loopback to who has the token.
func (a *agent) listen(ctx context.Context, home *home, away server.Away, log *slog.Logger) error {
	local := server.Local(away, home, localRate, log)
	handler := local.For(server.LocalUser)
	group, ctx := errgroup.WithContext(ctx)
	if a.DistributedCatalog {
		log.Info("the agent also answers clients of the Distributed Catalog", "socket", a.Socket, "listen", a.Listen, "under", "/api")
		handler = distributedcatalog.Connector(ctx, handler, distributedcatalog.ConnectorOptions{
			Home:   distributedcatalog.Objects{Client: home.Client, Namespace: home.namespace, Liqo: home.doctor.here != nil},
			Server: local, URL: a.ConnectorURL, Log: log,
		})
	}
	if a.Socket != "" {
		l, err := server.ListenSocket(a.Socket)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, l, handler) })
	}
	if a.Listen != "" {
		guarded, l, err := a.loopback(handler)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, l, guarded) })
	}
	return group.Wait()
}

// loopback listens for who shows the token, which is made and kept in a file only its owner can read.
func (a *agent) loopback(next http.Handler) (http.Handler, net.Listener, error) {
	host, _, err := net.SplitHostPort(a.Listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, nil, fmt.Errorf("--listen %s is not an address on loopback: say 127.0.0.1:PORT", a.Listen)
	}
	if a.TokenFile == "" {
		return nil, nil, fmt.Errorf("--listen needs --token-file, where the token for callers is kept")
	}
	token, err := os.ReadFile(a.TokenFile)
	if errors.Is(err, os.ErrNotExist) {
		token = []byte(rand.Text())
		err = os.WriteFile(a.TokenFile, token, 0o600)
	}
	if err != nil {
		return nil, nil, err
	}
	want := []byte("Bearer " + strings.TrimSpace(string(token)))
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			server.Refuse(w, api.Errorf(api.CodeUnauthenticated, "the call has no valid token").Fix("send what is in %s as a bearer token", a.TokenFile))
			return
		}
		next.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", a.Listen)
	return guarded, l, err
}
