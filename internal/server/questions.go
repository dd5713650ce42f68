package server

import (
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// Right says who may ask a question.
type Right string

const (
	// OfNamespace is for a question that a namespace may ask. The answer shows what that namespace may see.
	OfNamespace Right = "namespace"
	// OfCluster is for a question about the whole cluster.
	OfCluster Right = "cluster"
)

// RoleUsers is the role of callers who ask by sessions. Those of one name are one caller.
const RoleUsers tlsid.Role = "users of"

// Scope is what a user may see of a cluster.
type Scope struct {
	// Cluster says that the user may see everything.
	Cluster bool
	// Namespaces are those whose objects the user may see.
	Namespaces []string
}

// Sees reports whether the user may see the objects of a namespace.
func (s Scope) Sees(namespace string) bool {
	return s.Cluster || slices.Contains(s.Namespaces, namespace)
}

// scopeOf returns what the caller of a call may see.
func scopeOf(ctx context.Context) Scope {
	if s := CallerOf(ctx).Scope; s != nil {
		return *s
	}
	return Scope{Cluster: true}
}

// rightKey is the key of a Right in the metadata of an operation.
const rightKey = "right"

// asks makes an operation a question. It must change nothing.
func asks(r Right) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Metadata = map[string]any{rightKey: r}
		o.Extensions = map[string]any{"x-right": string(r)}
	}
}

// checkRight returns why a caller may not call an operation. Errors: NotFound for one that is no question; Forbidden.
func checkRight(o *huma.Operation, c Caller) error {
	if c.Scope == nil {
		return nil
	}
	switch right, _ := o.Metadata[rightKey].(Right); {
	case right == OfNamespace, right == OfCluster && c.Scope.Cluster:
		return nil
	case right == OfCluster:
		return api.Errorf(api.CodeForbidden, "the %s may not ask about the whole cluster: %s", c, o.Summary).
			Fix("ask an admin for the right to create clustersessions.bourse.dev (ClusterRole bourse-viewer)")
	}
	return api.Errorf(api.CodeNotFound, "a session answers no %s %s", o.Method, o.Path).
		Fix("read and write the objects of the cluster: kubectl api-resources --api-group=%s", api.Group)
}

const (
	// questionsRate is the number of questions a second of one namespace, and of all who ask for the cluster.
	questionsRate = 20
	// questionsAtOnce is the number of their active calls, and one of these may be large: an evaluation, or a whole list.
	questionsAtOnce = 8
)

// Questions returns a server of the same API for callers who ask by sessions. Serve it by For.
func (s *Server) Questions() *Server {
	return &Server{Options: Options{Rate: questionsRate, Log: s.Log}, api: s.api, handler: s.handler,
		limits: limits{rate: questionsRate, now: time.Now},
		calls:  callLimiter{bounds: Bounds{Calls: questionsAtOnce, Large: 1}.orDefault()}}
}

// refuseCall answers a call with an error.
func refuseCall(call huma.Context, err error) {
	r, w := humago.Unwrap(call)
	Refuse(w, r, err)
}
