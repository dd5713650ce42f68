// Package answers answers what the users of a cluster ask its agent. They ask by Sessions (package questions), on a
// unix socket, or at an address with a token.
//
// Start at [API.Run], which listens. [Cluster] is what users ask about their own cluster: its state, its problems,
// what a request would get, and what would end with one. [Brokers] is what they ask about other clusters: it asks the
// brokers that this cluster joined and, while none answers, the connectors of sellers and the copy of the catalog.
// All else is objects, which users read and write at the API server.
package answers

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport"
)

// maxRate bounds the calls a second.
const maxRate = 200

// Options say what is served, and where.
type Options struct {
	Cluster server.ClusterAPI
	Brokers transport.Broker
	// Socket is the path of a unix socket. Empty: none.
	Socket string
	// Listen is an address, IP:PORT. Callers there need the token in TokenFile, which is made if
	// the file does not exist. An address other than loopback needs a token of at least 16
	// characters. Empty: none.
	Listen, TokenFile string
	// Extend returns a handler that serves more than next, until ctx ends. Nil: nothing more is served.
	Extend func(ctx context.Context, next http.Handler, local *server.Server) http.Handler
	Log    *slog.Logger
}

// API is the local API.
type API struct {
	Options
	local *server.Server
}

// New returns an API that does not listen yet.
func New(o Options) *API { return &API{o, server.Local(o.Brokers, o.Cluster, maxRate, o.Log)} }

// Questions returns the server of those who ask by sessions.
func (a *API) Questions() *server.Server { return a.local.Questions() }

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
		guarded, l, err := a.listenWithToken(handler)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, l, guarded) })
	}
	return group.Wait()
}

func (a *API) handler(ctx context.Context) http.Handler {
	handler := a.local.For(server.LocalUser)
	if a.Extend != nil {
		handler = a.Extend(ctx, handler, a.local)
	}
	return handler
}

// shortToken is how many characters a token has at least where other machines can try tokens.
const shortToken = 16

// listenWithToken listens at an address. The handler serves callers that have the token. Only the
// owner of a token file that it makes can read it.
func (a *API) listenWithToken(next http.Handler) (http.Handler, net.Listener, error) {
	host, _, err := net.SplitHostPort(a.Listen)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return nil, nil, api.Invalid("--listen", "%.80q is not an address", a.Listen).
			Fix("write 127.0.0.1:PORT, or 0.0.0.0:PORT behind a Service")
	}
	if a.TokenFile == "" {
		return nil, nil, api.Invalid("--token-file", "is missing").
			Fix("with --listen, name the file where the token for callers is kept")
	}
	token, err := os.ReadFile(a.TokenFile)
	if errors.Is(err, os.ErrNotExist) {
		token = []byte(rand.Text())
		err = os.WriteFile(a.TokenFile, token, 0o600)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(strings.TrimSpace(string(token))) < shortToken && !ip.IsLoopback() {
		return nil, nil, api.Invalid("--token-file", "the token in %s is shorter than %d characters",
			a.TokenFile, shortToken).
			Fix("remove the file, and the agent makes one; or write a longer one")
	}
	want := []byte("Bearer " + strings.TrimSpace(string(token)))
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			server.Refuse(w, r, api.Errorf(api.CodeUnauthenticated, "the call has no valid token").
				Fix("send what is in %s as a bearer token", a.TokenFile))
			return
		}
		next.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", a.Listen)
	return guarded, l, err
}
