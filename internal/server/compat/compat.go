package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// Options say which interfaces are served, beside a server's own.
type Options struct {
	Server *server.Server
	// Agents serves the resource agents of the prototypes; Secret is required then.
	Agents bool
	Secret Secret
	// Catalog serves the list of clusters, Orchestrator that and which of them a consumer enables.
	Catalog, Orchestrator bool
	// ForeignClusters are the ForeignCluster objects of the broker's own cluster, as JSON. Nil: it runs in none.
	ForeignClusters func(context.Context) ([]json.RawMessage, error)
	// Wait is how long the answer to a reservation waits for the provider's. Default 10s.
	Wait time.Duration
	Log  *slog.Logger
}

// compat is what serves them.
type compat struct {
	Options
	deputy deputy
	claims claims
}

// Serve adds the routes to a server that does not serve yet.
func Serve(o Options) {
	if o.Wait == 0 {
		o.Wait = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &compat{Options: o, deputy: deputy{exchange: o.Server.Exchange, secret: o.Secret}}
	if o.Agents {
		o.Server.HandleOpen("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
		c.handle("POST /api/v1/advertisements", c.advertise)
		c.handle("GET /api/v1/advertisements/{clusterID}", c.advertisement)
		c.handle("POST /api/v1/evaluations", c.evaluate)
		c.handle("POST /api/v1/reservations", c.reserve)
		c.handle("GET /api/v1/reservations", c.reservations)
		c.handle("GET /api/v1/reservations/{id}", c.reservation)
		c.handle("GET /api/v1/instructions", c.instructions)
	}
	if o.Catalog || o.Orchestrator {
		c.handle("GET /api/clusters", c.clusters)
	}
	if o.Orchestrator {
		c.handle("GET /api/toggle", c.toggle)
		c.handle("POST /api/toggle", c.toggle)
		c.handle("DELETE /api/toggle", c.untoggle)
	}
}

// answer is a status and what is said with it; nothing is an empty body.
type answer struct {
	status int
	body   any
}

// handle serves a route whose handler returns its answer.
func (c *compat) handle(pattern string, do func(*http.Request) (answer, error)) {
	c.Server.Handle(pattern, func(w http.ResponseWriter, r *http.Request) {
		var a answer
		err := take(w, r)
		if err == nil {
			a, err = do(r)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		if a.body != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.status)
		if a.body != nil {
			_ = json.NewEncoder(w).Encode(a.body)
		}
	})
}

const (
	maxBody  = 64 << 10 // bytes
	bodyTime = 10 * time.Second
)

// take reads the body of a call before anything else, so that it cannot be sent for ever.
func take(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTime))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return api.Errorf(api.CodeTooLarge, "the body is larger than %d bytes", maxBody).Fix("send less")
	}
	if err != nil {
		return api.Errorf(api.CodeInvalid, "the body could not be read: %s", err).Fix("send it again")
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	_ = c.SetReadDeadline(time.Time{})
	return nil
}

// details are those of an error, beside what the prototypes' clients read.
type details api.Error

// refuse answers with an error. The prototypes' clients read `error`, and know 400 for what we call not valid.
func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = api.Errorf(api.CodeInternal, "%s", err)
	}
	status := e.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
		details
	}{e.Error(), details(*e)})
}

// read reads the body of a call. Fields that are not known are left alone: clients differ.
func read(r *http.Request, into any) error {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return api.Invalid(wrong.Field, "a %s does not belong here", wrong.Value).Fix("send what docs/migrate.md shows")
	}
	if err != nil {
		return api.Errorf(api.CodeInvalid, "the body is not JSON: %s", err).Fix("send what docs/migrate.md shows")
	}
	return nil
}

// named returns the cluster that calls, whether or not it is a member.
func named(r *http.Request) (server.Caller, error) {
	c := server.CallerOf(r.Context())
	if c.Role != tlsid.RoleCluster && c.Role != tlsid.RoleLegacy {
		return c, api.Errorf(api.CodeForbidden, "%s is not a member cluster", c).Fix("call with the certificate of a cluster")
	}
	return c, nil
}

// member returns the caller as an active member.
func (c *compat) member(r *http.Request) (*market.Listing, error) {
	caller, err := named(r)
	if err != nil {
		return nil, err
	}
	l := c.Server.Exchange.View().Listing(caller.Name)
	switch {
	case l == nil || l.Member == nil || l.Member.State == api.MemberRemoved:
		return nil, api.Errorf(api.CodeNotMember, "cluster %s is not a member", caller.Name).Fix("advertise first, and ask the operator to run: bourse broker approve %s", caller.Name)
	case l.Member.State == api.MemberPending:
		return nil, api.Errorf(api.CodeNotMember, "cluster %s waits for an operator's approval", caller.Name).Fix("ask the operator to run: bourse broker approve %s", caller.Name)
	case l.Member.State != api.MemberActive:
		return nil, api.Errorf(api.CodeSuspended, "member %s is %s", caller.Name, l.Member.State).Fix("ask the operator")
	case caller.Role == tlsid.RoleLegacy && !l.Member.Legacy: // a subject must not stand for what a key does
		return nil, ownKey(caller.Name)
	}
	return l, nil
}

// legacy returns the caller as an active member for which the broker signs.
func (c *compat) legacy(r *http.Request) (*market.Listing, error) {
	l, err := c.member(r)
	if err == nil && !l.Member.Legacy {
		err = ownKey(l.Cluster)
	}
	return l, err
}

func ownKey(cluster string) error {
	return api.Errorf(api.CodeForbidden, "cluster %s has a key of its own: nobody signs in its name", cluster).
		Fix("deal through its agent, or ask the operator to remove the member first")
}
