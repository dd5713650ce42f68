package distributedcatalog

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
)

// BrokerOptions say what the broker's interface stands before.
type BrokerOptions struct {
	// URL is where members reach the broker.
	URL string
	// Server is the broker's: it says who calls, and bounds what they call.
	Server *server.Server
	Log    *slog.Logger
}

// Broker serves the interface of the prototype's broker, and by next, which is how members are
// served, all else. Who calls shows the certificate with which it joined, or a token that
// /authenticate gave to who did. Subscribers get news until ctx ends.
//
//	POST   /authenticate   who shows a member's certificate gets a token
//	GET    /catalog        what others sell, by provider
//	GET    /offer/{id}     one offer
//	POST   /offer/{id}     put on sale what the caller's agent signed
//	POST   /offers         the same of several: none where one of them is wrong
//	DELETE /offer/{id}     take the caller's off sale
//	DELETE /cluster        take all of the caller's off sale, and end its tokens
//	GET    /subscribe      WebSocket: the catalog, then each provider whose offers change
func Broker(ctx context.Context, next http.Handler, o BrokerOptions) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	b := &broker{BrokerOptions: o, next: next, sessions: sessions{all: map[string]session{}, now: time.Now},
		subscribers: subscribers{ctx: ctx, log: o.Log}}
	mux := bounded{http.NewServeMux(), o.Server, b.caller, refuse}
	for route, handle := range map[string]func(http.ResponseWriter, *http.Request, *member) (any, error){
		"POST /authenticate": b.authenticate,
		"GET /catalog":       b.catalog,
		"GET /offer/{id}":    b.offer,
		"POST /offer/{id}":   b.putOffer,
		"POST /offers":       b.putOffers,
		"DELETE /offer/{id}": b.deleteOffer,
		"DELETE /cluster":    b.deleteCluster,
	} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			payload, err := handle(w, r, b.member(r))
			if err != nil {
				refuse(w, r, err)
				return
			}
			answerJSON(w, http.StatusOK, payload)
		})
	}
	mux.HandleFunc("GET /subscribe", b.subscribe)
	return serve(mux.ServeMux, next)
}

// bounded are routes that first identify the caller, and then bound what one caller may ask, as the API does.
type bounded struct {
	*http.ServeMux
	server *server.Server
	caller func(*http.Request) (server.Caller, error)
	refuse func(http.ResponseWriter, *http.Request, error)
}

func (b bounded) HandleFunc(route string, handle http.HandlerFunc) {
	b.Handle(route, b.server.Bounded(b.caller, b.refuse, handle))
}

func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	why, status := failed(err)
	answerJSON(w, status, why)
}

type broker struct {
	BrokerOptions
	next        http.Handler
	sessions    sessions
	subscribers subscribers
}

// member is who calls.
type member struct {
	*client.Client
	server  *server.Server
	cluster string
	state   *tls.ConnectionState
	proven  bool // by the certificate of this very connection
}

// caller is who calls: by its certificate, else by a token.
func (b *broker) caller(r *http.Request) (server.Caller, error) {
	c, err := b.Server.ByCertificate(r)
	if err == nil && c.Role == tlsid.RoleCluster {
		return c, nil
	}
	if state := b.sessions.find(token(r)); state != nil {
		return b.Server.ByState(state)
	}
	if err == nil {
		err = api.Errorf(api.CodeUnauthenticated,
			"the call shows neither the certificate of a member nor a token of /authenticate that is still good").
			Fix("join the federation, and show the cluster's certificate: see docs/migrate-catalog.md")
	}
	return c, err
}

// member is the caller of a call that was let in. That it still is a member the API says.
func (b *broker) member(r *http.Request) *member {
	m := &member{server: b.Server, cluster: server.CallerOf(r.Context()).Name, state: r.TLS}
	if m.proven = b.Server.Authority.Member(r.TLS) == m.cluster; !m.proven {
		m.state = b.sessions.find(token(r))
	}
	m.Client = inside{b.next, m.state, r.RemoteAddr}.api()
	return m
}

// admitted says why the caller may not trade, or nil.
func (m *member) admitted(ctx context.Context) error {
	_, err := m.own(ctx)
	return err
}

// own is what the caller has on sale.
func (m *member) own(ctx context.Context) ([]api.Envelope[api.Listing], error) {
	return m.Catalog(ctx, api.CatalogQuery{Seller: m.cluster})
}

func (b *broker) catalog(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	return b.others(r.Context(), m)
}

// others is what all but the caller sell.
func (b *broker) others(ctx context.Context, m *member) ([]Catalog, error) {
	if err := server.CountLarge(ctx); err != nil {
		return nil, err
	}
	listed, err := m.Catalog(ctx, api.CatalogQuery{})
	return byProvider(listed, m.cluster, b.URL), err
}

// subscribe sends what others sell, and from then on each provider whose offers change.
func (b *broker) subscribe(w http.ResponseWriter, r *http.Request) {
	m, revision := b.member(r), func() uint64 { return b.Server.Exchange.View().Revision }
	last := revision()
	b.subscribers.serve(w, r, m.cluster, subscription{
		every: lookSoon, refuse: refuse,
		read: func() (first []Catalog, away bool, err error) {
			first, err = b.others(r.Context(), m)
			return first, false, err
		},
		told: func() { server.EndCall(r.Context()) },
		look: func(ctx context.Context, soon bool) ([]Catalog, error) {
			now := revision()
			if now == last && soon {
				return nil, errSame
			}
			last = now
			return b.others(ctx, m)
		},
		write: func(payload any) any {
			switch payload.(type) {
			case error, string:
				return nil
			}
			return payload
		},
	})
}
