package resourceagent

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// Options say what is served, beside a server's own routes.
type Options struct {
	Server *server.Server
	Secret Secret
	// Wait is how long the answer to a reservation waits for the provider's. Default 25s: the
	// prototypes' agents wait 30s for an answer, and fetch instructions every 5s or 30s.
	Wait time.Duration
	Log  *slog.Logger
}

type agents struct {
	Options
	deputy deputy
	claims claims
}

// Serve adds the routes to a server that does not serve yet.
func Serve(o Options) {
	if o.Wait == 0 {
		o.Wait = 25 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	a := &agents{Options: o, deputy: deputy{exchange: o.Server.Exchange, secret: o.Secret}}
	o.Server.HandleOpen("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	compat.Handle(o.Server, "POST /api/v1/advertisements", a.advertise)
	compat.Handle(o.Server, "GET /api/v1/advertisements/{clusterID}", a.advertisement)
	compat.Handle(o.Server, "POST /api/v1/evaluations", a.evaluate)
	compat.Handle(o.Server, "POST /api/v1/reservations", a.reserve)
	compat.Handle(o.Server, "GET /api/v1/reservations", a.reservations)
	compat.Handle(o.Server, "GET /api/v1/reservations/{id}", a.reservation)
	compat.Handle(o.Server, "GET /api/v1/instructions", a.instructions)
}

// legacy returns the caller as an active member for which the broker signs.
func (a *agents) legacy(r *http.Request) (*market.Listing, error) {
	l, err := compat.Member(a.Server, r)
	if err == nil && !l.Member.Legacy {
		err = compat.OwnKey(l.Cluster)
	}
	return l, err
}

// SecretFile is where a broker keeps the secret, in the folder of its CA.
const SecretFile = "legacy.key"

// SecretOf opens the secret of a broker with this folder. It makes the secret where no member needs it yet.
func SecretOf(dir string, s *server.Server) (Secret, error) {
	file := filepath.Join(dir, "ca", SecretFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && hasMembers(s.Exchange.View()) {
		return nil, api.Errorf(api.CodeConflict,
			"the market has members without a key, but %s, which their keys are derived from, is not there", file).
			At("--dir").Fix("copy the folder ca from the broker's --dir or from where it led before, or restore a backup")
	}
	return openSecret(file)
}

// AdmitCommonNames lets certificates name clusters by their common name: those of the broker's CA,
// and those of the CAs in a PEM file. An empty file name adds none. Errors: Invalid.
func AdmitCommonNames(authority *tlsid.Authority, file string) error {
	const flag, fix = "--legacy-ca", "name a PEM file with the CA of the agents' certificates"
	var further []byte
	if file != "" {
		var err error
		if further, err = os.ReadFile(file); err != nil {
			return api.Invalid(flag, "%s", err).Fix(fix)
		}
	}
	if err := authority.AdmitCommonNames(further); err != nil {
		return api.Invalid(flag, "%s: %s", file, err).Fix(fix)
	}
	return nil
}

// ByObjectsOnly refuses the routes of agents to HTTP callers. Agents that come through objects use
// them from within.
func ByObjectsOnly(s *server.Server, next http.Handler) http.Handler {
	refused := s.Bounded(s.ByCertificate, server.Refuse, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Refuse(w, r, api.Errorf(api.CodeNotFound, "agents of the prototypes are not served by HTTP here").
			Fix("ask the operator for --broker-interface both"))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			refused.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
