package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// Away is the broker as an agent's listener shows it to the people of its cluster.
type Away interface {
	Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error)
	Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error)
	Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error)
	Offer(ctx context.Context, seller, name string) (api.Envelope[api.Listing], error)
	Evaluate(ctx context.Context, r api.Request) (api.Evaluation, error)
	Reservations(ctx context.Context) ([]api.Envelope[api.Reservation], error)
	Reservation(ctx context.Context, id string) (api.Envelope[api.Reservation], error)
}

// Home is what people do to the objects of their cluster through its agent.
type Home interface {
	// Status says who the cluster is and how it stands with its broker.
	Status(ctx context.Context) (api.AgentStatus, error)
	// MakeRequest makes a ResourceRequest. Errors: Invalid, Conflict when it exists.
	MakeRequest(ctx context.Context, r api.RequestCreate) (api.Envelope[api.RequestStatus], error)
	// Asks is what a ResourceRequest that is made like this would ask for: also to stay where its volumes are. Errors: Unavailable.
	Asks(ctx context.Context, r api.RequestCreate) (api.Request, error)
	// Request reads one. Errors: NotFound.
	Request(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error)
	// Requests reads all.
	Requests(ctx context.Context) ([]api.Envelope[api.RequestStatus], error)
	// ConfirmRequest confirms a held one. Errors: NotFound.
	ConfirmRequest(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error)
	// ChangeReservation edits the request behind a reservation. Errors: Invalid, NotFound, Conflict where it is not bound.
	ChangeReservation(ctx context.Context, id string, change api.ReservationChange) (api.Envelope[api.RequestStatus], error)
	// ReleaseReservation deletes the request behind a reservation. Errors: NotFound.
	ReleaseReservation(ctx context.Context, id string) error
	// Offers reads what this cluster sells, Offer one. Errors: NotFound.
	Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error)
	// PutOffer makes an Offer, or changes it: it is its admin's word. Errors: Invalid.
	PutOffer(ctx context.Context, name string, spec api.OfferSpec) (api.Envelope[api.OwnOffer], error)
	// DeleteOffer deletes one. Errors: NotFound.
	DeleteOffer(ctx context.Context, name string) error
	// Deals reads the contracts of this cluster, as buyer and as seller.
	Deals(ctx context.Context) ([]api.Envelope[api.Deal], error)
	// Reclaim takes back what this cluster sold, with its notice. Errors: NotFound, Forbidden, Conflict.
	Reclaim(ctx context.Context, id string) (api.Reclaimed, error)
	// Approvals reads what waits for a person of this cluster to approve it, longest first.
	Approvals(ctx context.Context) ([]api.Envelope[api.Approval], error)
	// Answer is a person's word on one. Repeating it is harmless. Errors: NotFound; Conflict where it does not wait, or is not what they saw.
	Answer(ctx context.Context, id string, word api.Answer) error
	// Diagnose looks for whatever is wrong, worst first.
	Diagnose(ctx context.Context) api.Diagnosis
	// Audit lists what another cluster can do in this one. Errors: NotFound where it can do nothing.
	Audit(ctx context.Context, cluster string) (*api.Audit, error)
	// Evict ends all that another cluster has reserved here. Repeating it is harmless.
	Evict(ctx context.Context, cluster string) (api.Eviction, error)
	// Peers lists the clusters that this one has met, or whose key its admin named.
	Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error)
	// Trust is the admin's word, which key a cluster has. Errors: Invalid.
	Trust(ctx context.Context, cluster string, said api.PeerSpec) (api.Envelope[api.KnownPeer], error)
	// Suspend is the admin's word that a cluster gets nothing more here, Resume that it does again. Repeating either is harmless.
	// Errors: Invalid.
	Suspend(ctx context.Context, cluster string, s api.Suspension) (api.Envelope[api.KnownPeer], error)
	Resume(ctx context.Context, cluster string) (api.Envelope[api.KnownPeer], error)
	// Brokers lists the brokers that the cluster deals with, the main one first.
	Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error)
	// PutBroker adds one, or changes it; DeleteBroker removes one. What was reserved through it goes on. Errors: Invalid; NotFound.
	PutBroker(ctx context.Context, name string, spec api.BrokerSpec) (api.Envelope[api.KnownBroker], error)
	DeleteBroker(ctx context.Context, name string) error
	// RotateKey gives this cluster a new key, signed by the one that it has. Repeating it is harmless. Errors: Conflict when it
	// has, and had, another key than the one that is to be succeeded.
	RotateKey(ctx context.Context, r api.KeyRotation) (api.KeyRotated, error)
}

// Local makes a server for the users of a member cluster: a caller that is let in may do everything. Serve it by For([LocalUser]).
func Local(away Away, home Home, rate float64, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	l := &local{away, home}
	l.routes(newAPI(mux))
	return &Server{Options: Options{Rate: rate, Log: log}, limits: limits{rate: rate}, held: held{bounds: Bounds{Large: wholeLists}.orDefault()}, handler: routed(mux)}
}

// LocalUser is the caller of each call to a server that [Local] made: all users of a cluster are one caller.
func LocalUser(*http.Request) (Caller, error) {
	return Caller{Role: tlsid.RoleCluster, Name: "local"}, nil
}

// wholeLists is how many calls of an agent's users may be answered at the same time from a whole list of a broker: one takes the agent up to
// 96 MiB of memory.
const wholeLists = 4

// whole reads a whole list of a broker, when its turn has come. Errors: TooManyRequests; those of read.
func whole[T any](ctx context.Context, read func(context.Context) ([]T, error)) ([]T, error) {
	if err := TakeLarge(ctx); err != nil {
		return nil, err
	}
	return read(ctx)
}

type local struct {
	away Away
	home Home
}

type RequestPath struct {
	Namespace string `path:"namespace" maxLength:"63"`
	Name      string `path:"name" maxLength:"253"`
}

func (l *local) routes(a huma.API) {
	huma.Register(a, operation("status", http.MethodGet, "/status", "Read the state of the agent and its broker"), func(ctx context.Context, _ *struct{}) (*body[api.AgentStatus], error) {
		return answered(l.home.Status(ctx))
	})
	huma.Register(a, operation("list-clusters", http.MethodGet, "/clusters", "List the clusters that this one may see"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.Cluster]], error) {
		items, err := whole(ctx, l.away.Clusters)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("get-cluster", http.MethodGet, "/clusters/{cluster}", "Read a cluster"), func(ctx context.Context, in *ClusterPath) (*body[api.Envelope[api.Cluster]], error) {
		return answered(l.away.Cluster(ctx, in.Cluster))
	})
	huma.Register(a, operation("search-catalog", http.MethodGet, "/catalog", "Search the offers that this cluster may see"), func(ctx context.Context, in *CatalogSearch) (*body[page[api.Listing]], error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		items, err := whole(ctx, func(ctx context.Context) ([]api.Envelope[api.Listing], error) { return l.away.Catalog(ctx, q) })
		return answered(page[api.Listing]{Items: items, whole: true}, err)
	})
	huma.Register(a, operation("get-offer", http.MethodGet, "/catalog/{cluster}/{name}", "Read an offer"), func(ctx context.Context, in *OfferPath) (*body[api.Envelope[api.Listing]], error) {
		return answered(l.away.Offer(ctx, in.Cluster, in.Name))
	})
	huma.Register(a, operation("list-offers", http.MethodGet, "/offers", "List the offers of this cluster"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.OwnOffer]], error) {
		items, err := l.home.Offers(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("put-offer", http.MethodPut, "/offers/{name}", "Create or change an Offer"), func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"63"`
		Body api.OfferSpec
	}) (*body[api.Envelope[api.OwnOffer]], error) {
		return answered(l.home.PutOffer(ctx, in.Name, in.Body))
	})
	huma.Register(a, operation("delete-offer", http.MethodDelete, "/offers/{name}", "Delete an Offer", noContent), func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"63"`
	}) (*struct{}, error) {
		return nil, wrap(l.home.DeleteOffer(ctx, in.Name))
	})
	huma.Register(a, operation("list-contracts", http.MethodGet, "/contracts", "List the contracts of this cluster"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.Deal]], error) {
		items, err := l.home.Deals(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("reclaim", http.MethodPost, "/contracts/{id}/reclaim", "Take back a sold contract, with its notice"), func(ctx context.Context, in *ReservationPath) (*body[api.Reclaimed], error) {
		return answered(l.home.Reclaim(ctx, in.ID))
	})
	huma.Register(a, operation("list-approvals", http.MethodGet, "/approvals", "List the requests that wait for an admin's approval"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.Approval]], error) {
		items, err := l.home.Approvals(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("answer", http.MethodPost, "/approvals/{id}", "A person's yes or no", noContent), func(ctx context.Context, in *struct {
		ReservationPath
		Body api.Answer
	}) (*struct{}, error) {
		return nil, wrap(l.home.Answer(ctx, in.ID, in.Body))
	})
	huma.Register(a, operation("evaluate", http.MethodPost, "/evaluations", "Decide without a reservation"), func(ctx context.Context, in *struct{ Body api.RequestCreate }) (*body[api.Evaluation], error) {
		r, err := l.home.Asks(ctx, in.Body)
		if err != nil {
			return nil, wrap(err)
		}
		return answered(l.away.Evaluate(ctx, r))
	})
	huma.Register(a, operation("list-reservations", http.MethodGet, "/reservations", "List the reservations of this cluster"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.Reservation]], error) {
		items, err := whole(ctx, l.away.Reservations)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("get-reservation", http.MethodGet, "/reservations/{id}", "Read a reservation"), func(ctx context.Context, in *ReservationPath) (*body[api.Envelope[api.Reservation]], error) {
		return answered(l.away.Reservation(ctx, in.ID))
	})
	huma.Register(a, operation("change", http.MethodPatch, "/reservations/{id}", "Edit the request behind a reservation"), func(ctx context.Context, in *struct {
		ReservationPath
		Body api.ReservationChange
	}) (*body[api.Envelope[api.RequestStatus]], error) {
		return answered(l.home.ChangeReservation(ctx, in.ID, in.Body))
	})
	huma.Register(a, operation("release", http.MethodPost, "/reservations/{id}/release", "Delete the request behind a reservation", noContent), func(ctx context.Context, in *ReservationPath) (*struct{}, error) {
		return nil, wrap(l.home.ReleaseReservation(ctx, in.ID))
	})
	huma.Register(a, operation("list-requests", http.MethodGet, "/requests", "List the ResourceRequests of this cluster"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.RequestStatus]], error) {
		items, err := l.home.Requests(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("create-request", http.MethodPost, "/requests", "Make a ResourceRequest", created), func(ctx context.Context, in *struct{ Body api.RequestCreate }) (*body[api.Envelope[api.RequestStatus]], error) {
		return answered(l.home.MakeRequest(ctx, in.Body))
	})
	huma.Register(a, operation("get-request", http.MethodGet, "/requests/{namespace}/{name}", "Read a ResourceRequest"), func(ctx context.Context, in *RequestPath) (*body[api.Envelope[api.RequestStatus]], error) {
		return answered(l.home.Request(ctx, in.Namespace, in.Name))
	})
	huma.Register(a, operation("confirm-request", http.MethodPost, "/requests/{namespace}/{name}/confirm", "Confirm a held request"), func(ctx context.Context, in *RequestPath) (*body[api.Envelope[api.RequestStatus]], error) {
		return answered(l.home.ConfirmRequest(ctx, in.Namespace, in.Name))
	})
	huma.Register(a, operation("diagnose", http.MethodGet, "/diagnosis", "List the problems, worst first"), func(ctx context.Context, _ *struct{}) (*body[api.Diagnosis], error) {
		return answered(l.home.Diagnose(ctx), nil)
	})
	huma.Register(a, operation("audit", http.MethodGet, "/peers/{cluster}/audit", "List what another cluster can do in this one"), func(ctx context.Context, in *ClusterPath) (*body[*api.Audit], error) {
		return answered(l.home.Audit(ctx, in.Cluster))
	})
	huma.Register(a, operation("evict", http.MethodPost, "/peers/{cluster}/evict", "End all reservations of another cluster here"), func(ctx context.Context, in *ClusterPath) (*body[api.Eviction], error) {
		return answered(l.home.Evict(ctx, in.Cluster))
	})
	huma.Register(a, operation("list-peers", http.MethodGet, "/peers", "List the clusters with known keys"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.KnownPeer]], error) {
		items, err := l.home.Peers(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("trust", http.MethodPut, "/peers/{cluster}", "Confirm the key of a cluster"), func(ctx context.Context, in *struct {
		ClusterPath
		Body api.PeerSpec
	}) (*body[api.Envelope[api.KnownPeer]], error) {
		return answered(l.home.Trust(ctx, in.Cluster, in.Body))
	})
	huma.Register(a, operation("suspend", http.MethodPost, "/peers/{cluster}/suspend", "Lend another cluster nothing more; existing reservations stay"), func(ctx context.Context, in *struct {
		ClusterPath
		Body api.Suspension
	}) (*body[api.Envelope[api.KnownPeer]], error) {
		return answered(l.home.Suspend(ctx, in.Cluster, in.Body))
	})
	huma.Register(a, operation("resume", http.MethodPost, "/peers/{cluster}/resume", "End a suspension"), func(ctx context.Context, in *ClusterPath) (*body[api.Envelope[api.KnownPeer]], error) {
		return answered(l.home.Resume(ctx, in.Cluster))
	})
	huma.Register(a, operation("list-brokers", http.MethodGet, "/brokers", "List the brokers of this cluster"), func(ctx context.Context, in *struct{ Page }) (*body[page[api.KnownBroker]], error) {
		items, err := l.home.Brokers(ctx)
		return answered(cut(items, in.Page), err)
	})
	huma.Register(a, operation("put-broker", http.MethodPut, "/brokers/{name}", "Add or change a broker"), func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"63"`
		Body api.BrokerSpec
	}) (*body[api.Envelope[api.KnownBroker]], error) {
		return answered(l.home.PutBroker(ctx, in.Name, in.Body))
	})
	huma.Register(a, operation("delete-broker", http.MethodDelete, "/brokers/{name}", "Remove a broker", noContent), func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"63"`
	}) (*struct{}, error) {
		return nil, wrap(l.home.DeleteBroker(ctx, in.Name))
	})
	huma.Register(a, operation("rotate-key", http.MethodPost, "/key/rotate", "Give this cluster a new key, signed by the old one"), func(ctx context.Context, in *struct{ Body api.KeyRotation }) (*body[api.KeyRotated], error) {
		return answered(l.home.RotateKey(ctx, in.Body))
	})
}

func answered[T any](payload T, err error) (*body[T], error) {
	if err != nil {
		return nil, wrap(err)
	}
	return &body[T]{payload}, nil
}
