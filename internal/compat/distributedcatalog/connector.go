package distributedcatalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/server"
)

// Profile is what the prototype asks about a cluster when it is first started.
type Profile struct {
	// PrettyName is what people call the cluster; empty: its ID.
	PrettyName string
	// ContractEndpoint is what its admin said of where it sells; empty: its connector, or its broker.
	ContractEndpoint string
}

// Home is what a connector's interface needs of an agent beside its REST API.
type Home interface {
	// Profile reads the profile, SetProfile writes it. Errors: Unavailable.
	Profile(ctx context.Context) (Profile, error)
	SetProfile(ctx context.Context, p Profile) error
	// Peerings are those that Bourse made.
	Peerings(ctx context.Context) ([]api.Peering, error)
}

// ConnectorOptions say what the connector's interface stands before.
type ConnectorOptions struct {
	Home Home
	// Objects are those of the cluster, read from its API server and written as the agent, whose namespace is Namespace.
	Objects   kube.Client
	Namespace string
	// Server is that of the agent's listener, made by [server.Local]: it bounds what callers hold open.
	Server *server.Server
	// URL is where others reach the agent's connector; empty: it has none.
	URL string
	Log *slog.Logger
}

// Extend returns a function that puts Connector before the API that an agent serves to the users of
// its cluster. It returns nil where that is not enabled.
func Extend(
	enabled bool, o ConnectorOptions,
) func(ctx context.Context, next http.Handler, local *server.Server) http.Handler {
	if !enabled {
		return nil
	}
	return func(ctx context.Context, next http.Handler, local *server.Server) http.Handler {
		o.Log.Info("the agent also answers clients of the Distributed Catalog", "under", "/api")
		o.Server = local
		return Connector(ctx, next, o)
	}
}

// Connector serves the API of the prototype's connector. All other calls go to next, the API that
// an agent serves to the users of its cluster: a caller of that one may ask everything. Subscribers
// get events until ctx ends.
//
//	GET, POST          /api/cluster/init, /api/cluster/prettyname, /api/cluster/contractendpoint
//	GET                /api/cluster/parameters
//	GET                /api/catalog
//	GET, POST, DELETE  /api/offers
//	GET, POST, PUT, DELETE  /api/brokers
//	GET, DELETE        /api/contracts
//	POST               /api/contracts/buy, /api/contracts/sell
//	GET, POST, DELETE  /api/peer
//	GET                /api/subscribe   WebSocket
func Connector(ctx context.Context, next http.Handler, o ConnectorOptions) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &connector{ConnectorOptions: o,
		Client: cluster.At(inside{next: next, remote: "inside"}.api(), o.Objects).WithAgentIn(o.Namespace),
		shown:  map[string]string{}, subscribers: subscribers{ctx: ctx, log: o.Log}}
	mux := bounded{http.NewServeMux(), o.Server, server.LocalUser, refuseInText}
	for route, handle := range map[string]func(http.ResponseWriter, *http.Request) (any, error){
		"GET /api/cluster/init":              c.ready,
		"POST /api/cluster/init":             c.setProfile,
		"GET /api/cluster/parameters":        c.parameters,
		"GET /api/cluster/prettyname":        c.prettyName,
		"POST /api/cluster/prettyname":       c.setPrettyName,
		"GET /api/cluster/contractendpoint":  c.contractEndpoint,
		"POST /api/cluster/contractendpoint": c.setContractEndpoint,
		"GET /api/catalog":                   c.catalog,
		"GET /api/offers":                    c.offers,
		"POST /api/offers":                   c.putOffer,
		"DELETE /api/offers":                 c.deleteOffer,
		"DELETE /api/offers/{id}":            c.deleteOffer,
		"GET /api/brokers":                   c.brokers,
		"POST /api/brokers":                  c.addBroker,
		"PUT /api/brokers":                   c.setBroker,
		"DELETE /api/brokers":                c.removeBroker,
		"GET /api/contracts":                 c.contracts,
		"DELETE /api/contracts":              c.revoke,
		"POST /api/contracts/buy":            c.buy,
		"POST /api/contracts/sell":           c.sell,
		"GET /api/peer":                      c.peerings,
		"POST /api/peer":                     c.peer,
		"DELETE /api/peer":                   c.unpeer,
	} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			payload, err := handle(w, r)
			if err != nil {
				refuseInText(w, r, err)
				return
			}
			answerJSON(w, http.StatusOK, payload)
		})
	}
	mux.HandleFunc("GET /api/subscribe", c.subscribe)
	return serve(mux.ServeMux, next)
}

// refuseInText answers an error as the prototype's connector does.
func refuseInText(w http.ResponseWriter, _ *http.Request, err error) {
	why, status := failed(err)
	answerJSON(w, status, inText(why))
}

type connector struct {
	ConnectorOptions
	*cluster.Client
	subscribers subscribers

	mu sync.Mutex
	// shown is the digest of each offer as it was last shown, by "seller/name": nothing else is bought.
	shown map[string]string
}

// inText is JSON as a text in JSON: so the prototype answers wherever it does not answer with one
// of its documents.
func inText(payload any) string {
	data, _ := json.Marshal(payload)
	return string(data)
}

// withMessage returns the answer of a call that returns only a message.
func withMessage(message string) string {
	return inText(map[string]string{"status": "OK", "message": message})
}

// param is the first of the parameters of a call that is given. Errors: Invalid at the first.
func param(r *http.Request, most int, names ...string) (string, error) {
	query := r.URL.Query()
	for _, name := range names {
		if text := query.Get(name); text != "" {
			return text, showable(name, text, most)
		}
	}
	return "", api.Invalid(names[0], "it is missing").Fix("add ?%s=...", names[0])
}

// catalog is what others sell; the versions of it are what is bought next.
func (c *connector) catalog(_ http.ResponseWriter, r *http.Request) (any, error) {
	return c.others(r.Context())
}

func (c *connector) others(ctx context.Context) ([]Catalog, error) {
	status, err := c.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := server.CountLarge(ctx); err != nil {
		return nil, err
	}
	listed, err := c.Catalog(ctx, api.CatalogQuery{})
	if err != nil {
		return nil, err
	}
	shown := make(map[string]string, len(listed))
	for _, l := range listed {
		shown[l.Payload.Seller+"/"+l.Payload.Name] = l.Payload.Digest
	}
	c.mu.Lock()
	c.shown = shown
	c.mu.Unlock()
	return byProvider(listed, status.Cluster, status.Broker), nil
}

// subscribe tells of each provider whose offers change, in the prototype's envelope, and when the
// broker is away.
func (c *connector) subscribe(w http.ResponseWriter, r *http.Request) {
	c.subscribers.serve(w, r, "the people of this cluster", subscription{
		quiet: true, every: lookAway, refuse: refuseInText,
		read: func() (first []Catalog, away bool, err error) {
			if first, err = c.catalogs(r.Context()); err != nil && api.CodeOf(err) == api.CodeUnavailable {
				return nil, true, nil
			}
			return first, false, err
		},
		told: func() { server.EndCall(r.Context()) },
		look: func(ctx context.Context, _ bool) ([]Catalog, error) { return c.catalogs(ctx) },
		write: func(payload any) any {
			switch value := payload.(type) {
			case error:
				why, _ := failed(value)
				return frame{frameText, frameBody{eventError, "Broker unreachable: " + why.Error}}
			case string:
				return frame{frameBroker, frameBody{eventBroker, value}}
			}
			return frame{frameText, frameBody{eventCatalog, inText(payload)}}
		},
	})
}
