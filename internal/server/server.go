package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/queue"
)

// Options configure a server.
type Options struct {
	Exchange *exchange.Exchange
	Engine   *match.Engine
	// Queue serves waiting requests; nil: requests may not wait here.
	Queue *queue.Queue
	// Authority identifies callers and issues certificates; nil: no cluster joins here, and For identifies
	// callers.
	Authority *tlsid.Authority
	// URL is the URL for members; join tokens hold it.
	URL string
	// Rate is the number of calls per second of one identity; the burst is twice that. Default 500.
	Rate float64
	// Bounds limit the connections and calls of one caller.
	Bounds Bounds
	// BodyMemory bounds the estimated memory of all large decoded bodies together, in bytes. Default
	// 128 MiB: the largest advertisement that the market accepts needs about 30 MiB.
	BodyMemory int64
	// Caps bound the reservations of one consumer. Default: no bound.
	Caps market.Caps
	// InForce reports whether a document of a cluster is in force in that cluster's own Ledger. A connector,
	// which has its Ledger, sets it for its own cluster. Nil: this server has no Ledger.
	InForce func(ctx context.Context, cluster, reservation, document string) bool
	// Ledger is that of the agent whose connector this is. It keeps proposals. Nil: nobody proposes here.
	Ledger *exchange.Exchange
	// Proposed is called with the ID of a proposal that the Ledger keeps. May be nil.
	Proposed func(id string)
	Log      *slog.Logger
}

// Server serves a market.
type Server struct {
	Options
	limits  limits
	calls   callLimiter
	watches watchLimiter
	bodies  *semaphore.Weighted // bytes of memory
	relay   relay
	lineage string
	started market.Time
	handler http.Handler
	api     huma.API
	mux     *http.ServeMux
	open    map[string]bool // paths that need no certificate
	ended   atomic.Int64    // calls with a certificate that had ended early

	software software
}

// New makes a server.
func New(o Options) *Server {
	if o.Rate == 0 {
		o.Rate = 500
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.BodyMemory = cmp.Or(o.BodyMemory, bodyMemory)
	s := &Server{Options: o, limits: limits{rate: o.Rate, now: time.Now}, calls: callLimiter{bounds: o.Bounds.orDefault()},
		bodies: semaphore.NewWeighted(o.BodyMemory), lineage: o.Exchange.Lineage(), started: o.Exchange.Now()}
	mux := http.NewServeMux()
	s.mux, s.api = mux, newAPI(mux)
	s.open = map[string]bool{joinPath: true, renewPath: true, "/openapi.json": true, "/openapi.yaml": true}
	s.clusterRoutes()
	s.offerRoutes()
	s.reservationRoutes()
	s.watchRoutes()
	s.relayRoutes()
	if s.Authority != nil {
		s.memberRoutes()
		s.joinRoutes()
	}
	if s.Ledger != nil {
		s.proposalRoutes()
	}
	describe(s.api, toBroker)
	s.handler = routed(mux)
	return s
}

var hook sync.Once

// newAPI makes the REST framework use our errors, types and limits.
func newAPI(mux *http.ServeMux) huma.API {
	hook.Do(func() { huma.NewError, huma.DefaultArrayNullable = problem, false })
	config := huma.DefaultConfig("Bourse", api.Version)
	config.Info.Description = "A resource broker for Liqo federations."
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	format := jsonFormat()
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	config.NoFormatFallback = false
	config.RejectUnknownQueryParameters = true
	registry := config.Components.Schemas
	registry.RegisterTypeAlias(reflect.TypeFor[resource.Quantity](), reflect.TypeFor[quantity]())
	registry.RegisterTypeAlias(reflect.TypeFor[metav1.Duration](), reflect.TypeFor[duration]())
	registry.RegisterTypeAlias(reflect.TypeFor[metav1.Time](), reflect.TypeFor[time.Time]())
	return humago.New(mux, config)
}

// Handle adds a route beside those of the API; [CallerOf] returns its caller. Call it before serving.
func (s *Server) Handle(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, h) }

// HandleOpen adds a route that needs no certificate. The pattern has a method and a path.
func (s *Server) HandleOpen(pattern string, h http.HandlerFunc) {
	_, path, _ := strings.Cut(pattern, " ")
	s.open[path] = true
	s.mux.HandleFunc(pattern, h)
}

// OpenAPI returns the description of the API, as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().YAML() }

// Members returns the handler for the TLS listener.
func (s *Server) Members() http.Handler { return s.identified(s.ByCertificate) }

// For returns the handler for callers that who identifies.
func (s *Server) For(who func(*http.Request) (Caller, error)) http.Handler { return s.identified(who) }

// Operators returns the handler for the local socket: everyone who can open it is an operator.
func (s *Server) Operators() http.Handler {
	return s.identified(func(*http.Request) (Caller, error) {
		return Caller{Role: tlsid.RoleOperator, Name: "local"}, nil
	})
}

// newID returns a new random ID that is easy to read out: the prefix and 16 characters a-z, 2-7.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }

// operation describes one route. Name is its operation ID.
func operation(name, method, path, summary string, more ...func(*huma.Operation)) huma.Operation {
	o := huma.Operation{
		OperationID: name, Method: method, Path: api.Prefix + path, Summary: summary,
		MaxBodyBytes:    64 << 10,
		BodyReadTimeout: -1, // endSlowBodies sets the deadlines
	}
	for _, f := range more {
		f(&o)
	}
	return o
}

func created(o *huma.Operation) { o.DefaultStatus = http.StatusCreated }

func noContent(o *huma.Operation) { o.DefaultStatus = http.StatusNoContent }

// unvalidated is for hot paths: only the market checks their bodies.
func unvalidated(o *huma.Operation) { o.SkipValidateBody = true }

// body is an answer with a payload.
type body[T any] struct {
	Body T
}

// tagged is an answer with a payload and its revision as ETag.
type tagged[T any] struct {
	ETag string `header:"ETag"`
	Body api.Envelope[T]
}

// member returns the caller as an active member.
func (s *Server) member(ctx context.Context) (*market.Listing, error) {
	c := CallerOf(ctx)
	if c.Role != tlsid.RoleCluster {
		return nil, api.Errorf(api.CodeForbidden, "%s is not a member cluster", c).Fix("act through the agent of a cluster")
	}
	l := s.Exchange.View().Listing(c.Name)
	switch {
	case l == nil || l.Member == nil || l.Member.State == api.MemberPending:
		return nil, api.Errorf(api.CodeNotMember, "cluster %s waits for an operator's approval", c.Name).
			Fix("ask the operator to run: bourse broker approve %s", c.Name)
	case l.Member.State != api.MemberActive:
		return nil, api.Errorf(api.CodeSuspended, "member %s is %s", c.Name, l.Member.State).Fix("ask the operator")
	}
	return l, nil
}

// operator rejects everyone but operators.
func operator(ctx context.Context) error {
	if c := CallerOf(ctx); c.Role != tlsid.RoleOperator {
		return api.Errorf(api.CodeForbidden, "%s is not an operator", c).
			Fix("use the broker's local socket or an operator's certificate")
	}
	return nil
}
