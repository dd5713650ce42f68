// Package compat answers calls in the shapes of the prototypes that came before Bourse. Its
// packages each serve one of their interfaces over the broker's one market: resourceagent,
// liqobroker, distributedcatalog, and objects.
package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/server"
)

// NameLabel is the label of a card with the name that an agent of the prototypes gives its cluster.
const NameLabel = "name"

// Answer is a status and a body. A nil Body sends none.
type Answer struct {
	Status int
	Body   any
}

// Handle serves a route for members. It reads the body first, bounded in size and time.
func Handle(s *server.Server, pattern string, do func(*http.Request) (Answer, error)) {
	s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) {
		var a Answer
		err := readBody(w, r)
		if err == nil {
			a, err = do(r)
		}
		if err != nil {
			server.Refuse(w, r, err)
			return
		}
		if a.Body != nil {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.Status)
		if a.Body != nil {
			_ = json.NewEncoder(w).Encode(a.Body)
		}
	})
}

const (
	maxBody  = 64 << 10 // bytes
	bodyTime = 10 * time.Second
)

// readBody reads the body of a call before anything else, so that no caller can send it for ever.
func readBody(w http.ResponseWriter, r *http.Request) error {
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

// Decode decodes the body of a call into each of the values. It ignores fields that it does not know, because clients
// differ. Errors: Invalid.
func Decode(r *http.Request, into ...any) error {
	data, err := io.ReadAll(r.Body)
	for i := 0; i < len(into) && err == nil; i++ {
		err = payload.Unmarshal(data, into[i])
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return api.Invalid(wrong.Field, "a %s does not belong here", wrong.Value).Fix("send what docs/migrate.md shows")
	}
	if err != nil {
		return api.Errorf(api.CodeInvalid, "the body is not JSON: %s", err).Fix("send what docs/migrate.md shows")
	}
	return nil
}

// Cluster returns the cluster that calls. It need not be a member. Errors: Forbidden.
func Cluster(r *http.Request) (server.Caller, error) {
	c := server.CallerOf(r.Context())
	if c.Role != tlsid.RoleCluster && c.Role != tlsid.RoleLegacy {
		return c, api.Errorf(api.CodeForbidden, "%s is not a member cluster", c).Fix("call with the certificate of a cluster")
	}
	return c, nil
}

// Member returns the caller as an active member. Errors: Forbidden, NotMember, Suspended.
func Member(s *server.Server, r *http.Request) (*market.Listing, error) {
	caller, err := Cluster(r)
	if err != nil {
		return nil, err
	}
	l := s.Exchange.View().Listing(caller.Name)
	switch {
	case l == nil || l.Member == nil || l.Member.State == api.MemberRemoved:
		return nil, api.Errorf(api.CodeNotMember, "cluster %s is not a member", caller.Name).
			Fix("advertise first, and ask the operator to run: bourse broker approve %s", caller.Name)
	case l.Member.State == api.MemberPending:
		return nil, api.Errorf(api.CodeNotMember, "cluster %s waits for an operator's approval", caller.Name).
			Fix("ask the operator to run: bourse broker approve %s", caller.Name)
	case l.Member.State != api.MemberActive:
		return nil, api.Errorf(api.CodeSuspended, "member %s is %s", caller.Name, l.Member.State).Fix("ask the operator")
	case caller.Role == tlsid.RoleLegacy && !l.Member.Legacy: // a subject must not do what needs the cluster's key
		return nil, OwnKey(caller.Name)
	}
	return l, nil
}

// OwnKey is the error of a call that needs a legacy member, from a cluster with a key of its own.
func OwnKey(cluster string) error {
	return api.Errorf(api.CodeForbidden, "cluster %s has a key of its own: nobody signs in its name", cluster).
		Fix("deal through its agent, or ask the operator to remove the member first")
}
