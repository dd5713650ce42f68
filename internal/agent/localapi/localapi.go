// Package localapi serves the users of this cluster, who reach their agent on a unix socket or on loopback.
//
// Start at [API.Run], which listens. [Cluster] is what users read and write of their own cluster: requests,
// offers, contracts, peers, brokers and problems. Most of it is objects in Kubernetes, which the controllers
// of the agent then look at. [Brokers] is what they read of other clusters: it asks the brokers that this
// cluster joined and, while none answers, the connectors of sellers and the copy of the catalog.
package localapi

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
	"github.com/bourse-dev/bourse/internal/server"
)

// maxRate bounds the calls a second.
const maxRate = 200

// Options say what is served, and where.
type Options struct {
	Cluster server.ClusterAPI
	Brokers server.BrokerAPI
	// Socket is the path of a unix socket. Empty: none.
	Socket string
	// Listen is an address on loopback. Callers there need the token in TokenFile, which is made if the file
	// does not exist. Empty: none.
	Listen, TokenFile string
	// Extend returns a handler that serves more than next, until ctx ends. Nil: nothing more is served.
	Extend func(ctx context.Context, next http.Handler, local *server.Server) http.Handler
	Log    *slog.Logger
}

// API is the local API.
type API struct{ Options }

// New returns an API that does not listen yet.
func New(o Options) *API { return &API{o} }

// Run serves until ctx ends.
func (a *API) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	handler := a.handler(ctx)
	if a.Socket != "" {
		l, err := server.ListenSocket(a.Socket)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, l, handler) })
	}
	if a.Listen != "" {
		guarded, l, err := a.listenLoopback(handler)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, l, guarded) })
	}
	return group.Wait()
}

func (a *API) handler(ctx context.Context) http.Handler {
	local := server.Local(a.Brokers, a.Cluster, maxRate, a.Log)
	handler := local.For(server.LocalUser)
	if a.Extend != nil {
		handler = a.Extend(ctx, handler, local)
	}
	return handler
}

// listenLoopback listens on loopback. The handler serves callers that have the token. Only the owner of the
// token file can read it.
func (a *API) listenLoopback(next http.Handler) (http.Handler, net.Listener, error) {
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
			server.Refuse(w, r, api.Errorf(api.CodeUnauthenticated, "the call has no valid token").Fix("send what is in %s as a bearer token", a.TokenFile))
			return
		}
		next.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", a.Listen)
	return guarded, l, err
}
