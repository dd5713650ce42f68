package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Local makes a server for the users of a member cluster. A caller without a [Scope] may do everything: serve it by
// For([LocalUser]). A caller with one may ask the questions that its Right answers, and nothing else.
func Local(broker transport.Broker, cluster ClusterAPI, rate float64, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	l := &local{broker, cluster, semaphore.NewWeighted(largeQuestions)}
	a := newAPI(mux)
	a.UseMiddleware(func(call huma.Context, next func(huma.Context)) {
		ctx, cancel := context.WithTimeout(call.Context(), answersWithin)
		defer cancel()
		if err := checkRight(call.Operation(), CallerOf(ctx)); err != nil {
			refuseCall(call, err)
			return
		}
		next(huma.WithContext(call, ctx))
	})
	l.routes(a)
	describe(a, toAgent)
	return &Server{Options: Options{Rate: rate, Log: log}, api: a, limits: limits{rate: rate, now: time.Now},
		calls: callLimiter{bounds: Bounds{Large: wholeLists}.orDefault()}, handler: routed(mux)}
}

// answersWithin bounds a call of an agent's users. Their client waits for 30 s: it learns what is wrong before.
const answersWithin = 25 * time.Second

// LocalUser returns the caller of all calls to a server of [Local]: all users of a cluster are one caller.
func LocalUser(*http.Request) (Caller, error) {
	return Caller{Role: tlsid.RoleCluster, Name: "local"}, nil
}

const (
	// wholeLists is the number of concurrent calls of the users of an agent's own listener that read a whole list of a
	// broker. Each takes up to 96 MiB of the agent's memory.
	wholeLists = 4
	// largeQuestions is the number of concurrent questions of all sessions that read a whole list, evaluate or look at
	// the whole cluster. A namespace, and all who ask for the cluster, have one of them at most.
	largeQuestions = 2
)

// large counts a call that takes much memory or work, until its answer is written: that holds the memory. Errors:
// TooManyRequests.
func (l *local) large(ctx context.Context) error {
	c := CallerOf(ctx)
	err := CountLarge(ctx)
	switch {
	case c.Scope == nil:
		return err
	case err != nil:
		return api.Errorf(api.CodeTooManyRequests, "the %s have a large question that is not answered yet: they have one at a "+
			"time, such as an evaluation or a whole list", c).Fix("repeat the command")
	}
	if err := acquire(ctx, l.asked, patience); err != nil {
		return api.Errorf(api.CodeTooManyRequests, "the agent answers %d large questions already", largeQuestions).
			Fix("repeat the command")
	}
	afterAnswer(ctx, func() { l.asked.Release(1) })
	return nil
}

// largely makes an answer that takes much memory or work, if the caller asks by a session. Errors: also
// TooManyRequests.
func largely[T any](ctx context.Context, l *local, answer func() (T, error)) (none T, err error) {
	if CallerOf(ctx).Scope != nil {
		if err := l.large(ctx); err != nil {
			return none, err
		}
	}
	return answer()
}

// readWhole returns read for a whole list of a broker. Errors: TooManyRequests; those of read.
func readWhole[T any](l *local, read lister[transport.Broker, T]) lister[transport.Broker, T] {
	return func(broker transport.Broker, ctx context.Context) ([]api.Envelope[T], error) {
		if err := l.large(ctx); err != nil {
			return nil, err
		}
		return read(broker, ctx)
	}
}

// shown returns read without the reservations that the caller may not see.
func shown(read lister[transport.Broker, api.Reservation]) lister[transport.Broker, api.Reservation] {
	return func(broker transport.Broker, ctx context.Context) ([]api.Envelope[api.Reservation], error) {
		all, err := read(broker, ctx)
		var some []api.Envelope[api.Reservation]
		for _, r := range all {
			if sees(ctx, r.Payload) {
				some = append(some, r)
			}
		}
		return some, err
	}
}

// sees reports whether the caller of a call may see a reservation: one that a request of its namespaces made.
func sees(ctx context.Context, r api.Reservation) bool {
	scope := scopeOf(ctx)
	namespace, _, made := strings.Cut(r.Object, "/")
	return scope.Cluster || made && scope.Sees(namespace)
}

// lister is a method that returns a list.
type lister[Of, T any] = func(of Of, ctx context.Context) ([]api.Envelope[T], error)

type local struct {
	broker  transport.Broker
	cluster ClusterAPI
	asked   *semaphore.Weighted // of large questions
}

// evaluate decides without a reservation. A namespace has one evaluation at a time. Errors: NotFound for a namespace
// that the caller may not see; those of Preview.
func (l *local) evaluate(ctx context.Context, q api.DryRun) (api.Evaluation, error) {
	scope := scopeOf(ctx)
	if q.Namespace == "" && len(scope.Namespaces) == 1 {
		q.Namespace = scope.Namespaces[0]
	}
	if name := cmp.Or(q.Namespace, metav1.NamespaceDefault); !scope.Sees(name) {
		return api.Evaluation{}, noNamespace(name)
	}
	if q.Offload != nil {
		for _, name := range q.Offload.Namespaces {
			if !scope.Sees(name) {
				return api.Evaluation{}, noNamespace(name).At("offload.namespaces").Fix("name namespaces of your own")
			}
		}
	}
	return largely(ctx, l, func() (api.Evaluation, error) { return l.cluster.Preview(ctx, l.broker, q) })
}

// reservation returns a reservation that the caller may see. Errors: NotFound; those of the broker.
func (l *local) reservation(ctx context.Context, id string) (api.Envelope[api.Reservation], error) {
	r, err := l.broker.Reservation(ctx, id)
	if err == nil && !sees(ctx, r.Payload) {
		return api.Envelope[api.Reservation]{}, api.Errorf(api.CodeNotFound,
			"no request that you may see made a reservation %.80q", id).FixBy("see", "bourse", "reservations")
	}
	return r, err
}

// readClusters reads a page of the clusters that the broker shows, and shows which of them this cluster passes over.
// The agent holds no more than that page.
func (l *local) readClusters(ctx context.Context, p Page) (page[api.Cluster], error) {
	if err := l.large(ctx); err != nil {
		return page[api.Cluster]{}, err
	}
	items, next, err := l.broker.ClustersAfter(ctx, p.Continue, p.Limit)
	if err == nil {
		l.showPassedOver(ctx, items)
	}
	return page[api.Cluster]{Items: items, Continue: next}, err
}

// showPassedOver shows which of the clusters this one passes over for each new request.
func (l *local) showPassedOver(ctx context.Context, all []api.Envelope[api.Cluster]) {
	var names []string
	for _, cluster := range all {
		names = append(names, cluster.ID)
	}
	why, err := l.cluster.PassedOver(ctx, names)
	for i := range all {
		if cause := why[all[i].ID]; cause != nil {
			all[i].Payload.PassedOver = cause.Error()
		} else if err != nil {
			all[i].Payload.PassedOverError = err.Error()
		}
	}
}

// impact returns what would end with a request, and names the claims and pods that the caller may see. Errors:
// NotFound; those of Impact.
func (l *local) impact(ctx context.Context, namespace, name string) (api.Impact, error) {
	scope := scopeOf(ctx)
	if !scope.Sees(namespace) {
		return api.Impact{}, noNamespace(namespace)
	}
	impact, err := l.cluster.Impact(ctx, namespace, name)
	if impact.Volumes != nil {
		shown := *impact.Volumes
		shown.Claims = scope.firstOf(shown.Claims)
		impact.Volumes = &shown
	}
	if impact.Pods != nil {
		impact.Pods = &api.Pods{Count: impact.Pods.Count, Names: scope.firstOf(impact.Pods.Names)}
	}
	return impact, err
}

// firstOf returns the first of the names NAMESPACE/NAME that the user may see.
func (s Scope) firstOf(names []string) []string {
	seen := []string{}
	for _, name := range names {
		if of, _, _ := strings.Cut(name, "/"); s.Sees(of) {
			seen = append(seen, name)
		}
	}
	return api.First(seen)
}

// previewSharing returns what a SharingPolicy would change. Without an answer of a broker it says so. Errors: Invalid.
func (l *local) previewSharing(ctx context.Context, spec api.Sharing) (api.SharingPreview, error) {
	others, unread := l.broker.Clusters(ctx)
	out, err := l.cluster.PreviewSharing(ctx, spec, others)
	if unread != nil {
		out.Unread = unread.Error()
	}
	return out, err
}

// noNamespace is the error of a namespace that the caller may not see, whether it exists or not.
func noNamespace(name string) *api.Error {
	return api.Errorf(api.CodeNotFound, "there is no namespace %.63q that you may ask for", name).
		At("namespace").Fix("name a namespace of your own (-n NAMESPACE)")
}

type RequestPath struct {
	Namespace string `path:"namespace" maxLength:"63"`
	Name      string `path:"name" maxLength:"253"`
}

type PoolPath struct {
	Name string `path:"name" maxLength:"57"`
}

func (l *local) routes(a huma.API) {
	huma.Register(a, operation("status", http.MethodGet, "/status", "Read the state of the agent and its broker", asks(OfNamespace)),
		func(ctx context.Context, _ *struct{}) (*body[api.AgentStatus], error) {
			return answered(l.cluster.Status(ctx))
		})
	huma.Register(a, operation("list-clusters", http.MethodGet, "/clusters", "List the clusters that this one may see",
		asks(OfNamespace)), func(ctx context.Context, in *struct{ Page }) (*body[page[api.Cluster]], error) {
		return answered(l.readClusters(ctx, in.Page))
	})
	huma.Register(a, operation("get-cluster", http.MethodGet, "/clusters/{cluster}", "Read a cluster", asks(OfNamespace)),
		func(ctx context.Context, in *ClusterPath) (*body[api.Envelope[api.Cluster]], error) {
			cluster, err := l.broker.Cluster(ctx, in.Cluster)
			all := []api.Envelope[api.Cluster]{cluster}
			if err == nil {
				l.showPassedOver(ctx, all)
			}
			return answered(all[0], err)
		})
	huma.Register(a, operation("search-catalog", http.MethodGet, "/catalog",
		"Search the offers that this cluster may see", asks(OfNamespace)),
		func(ctx context.Context, in *CatalogSearch) (*body[page[api.Listing]], error) {
			q, err := in.query()
			if err != nil {
				return nil, err
			}
			search := func(b transport.Broker, ctx context.Context) ([]api.Envelope[api.Listing], error) {
				return b.Catalog(ctx, q)
			}
			items, err := readWhole(l, search)(l.broker, ctx)
			return answered(page[api.Listing]{Items: items, whole: true}, err)
		})
	huma.Register(a, operation("get-offer", http.MethodGet, "/catalog/{cluster}/{name}", "Read an offer", asks(OfNamespace)),
		func(ctx context.Context, in *OfferPath) (*body[api.Envelope[api.Listing]], error) {
			return answered(largely(ctx, l, func() (api.Envelope[api.Listing], error) {
				return l.broker.Offer(ctx, in.Cluster, in.Name)
			}))
		})
	huma.Register(a, operation("evaluate", http.MethodPost, "/evaluations", "Decide without a reservation", asks(OfNamespace)),
		func(ctx context.Context, in *struct{ Body api.DryRun }) (*body[api.Evaluation], error) {
			return answered(l.evaluate(ctx, in.Body))
		})
	paged(a, l.broker, "list-reservations", "/reservations", "List the reservations of this cluster",
		readWhole(l, shown(transport.Broker.Reservations)), asks(OfNamespace))
	huma.Register(a, operation("get-reservation", http.MethodGet, "/reservations/{id}", "Read a reservation", asks(OfNamespace)),
		func(ctx context.Context, in *ReservationPath) (*body[api.Envelope[api.Reservation]], error) {
			return answered(l.reservation(ctx, in.ID))
		})
	huma.Register(a, operation("end-unknown", http.MethodPost, "/reservations/{id}/end",
		"End a reservation that this cluster signed and has no request for", noContent),
		func(ctx context.Context, in *ReservationPath) (*struct{}, error) {
			return nil, wrap(l.cluster.EndUnknown(ctx, in.ID))
		})
	huma.Register(a, operation("impact", http.MethodGet, "/requests/{namespace}/{name}/impact",
		"Show what would end with a ResourceRequest", asks(OfNamespace)),
		func(ctx context.Context, in *RequestPath) (*body[api.Impact], error) {
			return answered(l.impact(ctx, in.Namespace, in.Name))
		})
	huma.Register(a, operation("diagnose", http.MethodGet, "/diagnosis", "List the problems, worst first", asks(OfCluster)),
		func(ctx context.Context, _ *struct{}) (*body[api.Diagnosis], error) {
			return answered(largely(ctx, l, func() (api.Diagnosis, error) { return l.cluster.Diagnose(ctx), nil }))
		})
	huma.Register(a, operation("audit", http.MethodGet, "/peers/{cluster}/audit",
		"List what another cluster can do in this one", asks(OfCluster)),
		func(ctx context.Context, in *ClusterPath) (*body[*api.Audit], error) {
			return answered(largely(ctx, l, func() (*api.Audit, error) { return l.cluster.Audit(ctx, in.Cluster) }))
		})
	huma.Register(a, operation("plan-virtual-node-pool", http.MethodPost, "/virtual-node-pools/{name}/plan",
		"Show what a VirtualNodePool would reserve now, and write nothing", asks(OfCluster)), func(ctx context.Context, in *struct {
		PoolPath
		Body api.VirtualNodePoolSpec
	}) (*body[api.VirtualNodePoolStatus], error) {
		return answered(largely(ctx, l, func() (api.VirtualNodePoolStatus, error) {
			return l.cluster.PlanVirtualNodePool(ctx, in.Name, in.Body)
		}))
	})
	huma.Register(a, operation("preview-sharing", http.MethodPost, "/sharing/preview",
		"Show what a SharingPolicy would change now, and write nothing", asks(OfCluster)),
		func(ctx context.Context, in *struct{ Body sharingSpec }) (*body[api.SharingPreview], error) {
			return answered(largely(ctx, l, func() (api.SharingPreview, error) { return l.previewSharing(ctx, in.Body.Sharing) }))
		})
	paged(a, l.cluster, "list-brokers", "/brokers", "List the brokers of this cluster", ClusterAPI.Brokers,
		asks(OfCluster))
	huma.Register(a, operation("rotate-key", http.MethodPost, "/key/rotate",
		"Give this cluster a new key, signed by the old one"),
		func(ctx context.Context, in *struct{ Body api.KeyRotation }) (*body[api.KeyRotated], error) {
			return answered(l.cluster.RotateKey(ctx, in.Body))
		})
}

// paged registers a route that returns all that read returns, in pages.
func paged[Of, T any](a huma.API, of Of, name, path, summary string, read lister[Of, T],
	more ...func(*huma.Operation)) {
	huma.Register(a, operation(name, http.MethodGet, path, summary, more...),
		func(ctx context.Context, in *struct{ Page }) (*body[page[T]], error) {
			items, err := read(of, ctx)
			return answered(cut(items, in.Page), err)
		})
}

func answered[T any](payload T, err error) (*body[T], error) {
	if err != nil {
		return nil, wrap(err)
	}
	return &body[T]{payload}, nil
}
