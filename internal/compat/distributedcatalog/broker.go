package distributedcatalog

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
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
// /authenticate gave to who did. Subscribers are told until ctx ends.
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
	m := &member{cluster: server.CallerOf(r.Context()).Name, state: r.TLS}
	if m.proven = b.Server.Authority.Member(r.TLS) == m.cluster; !m.proven {
		m.state = b.sessions.find(token(r))
	}
	m.Client = inside{b.next, m.state, r.RemoteAddr}.api()
	return m
}

// token is what a call shows: a bearer token or, where a subscriber's program cannot send one, the
// prototype's cookie.
func token(r *http.Request) string {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	if r.URL.Path != "/subscribe" { // a cookie is sent by any page that a browser shows
		return ""
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		return cookie.Value
	}
	return ""
}

const cookieName = "jwt-token"

// authenticate gives a member a token. A body is the prototype's description of a provider, of
// which only the cluster's ID is looked at: without one, a customer authenticates.
func (b *broker) authenticate(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	if !m.proven {
		return nil, api.Errorf(api.CodeUnauthenticated,
			"a token is given to who shows the certificate of a member, not for another token").
			Fix("show the cluster's certificate")
	}
	var body map[string]json.RawMessage
	if r.ContentLength != 0 {
		if err := readBody(w, r, &body); err != nil {
			return nil, err
		}
		for _, key := range []string{"clusterID", "clusterName", "token", "endpoint"} {
			var text string
			if raw, given := body[key]; !given || json.Unmarshal(raw, &text) != nil || string(raw) == "null" {
				return nil, api.Invalid(key, "Malformed input: it is missing, or no text").
					Fix("send clusterID, clusterName, token, endpoint and clusterContractEndpoint, or no body")
			}
			if key == "clusterID" && text != m.cluster {
				return nil, api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q", m.cluster, text).At(key).
					Fix("speak for %s", m.cluster)
			}
		}
	}
	if err := m.admitted(r.Context()); err != nil {
		return nil, err
	}
	text := b.sessions.open(m.cluster, m.state)
	b.Log.Info("a client of the Distributed Catalog authenticated", "cluster", m.cluster, "from", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: text, Path: "/subscribe",
		MaxAge: int(sessionEnds / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return map[string]string{"status": "OK", "brokerID": brokerID(b.URL), "token": text}, nil
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

func (b *broker) offer(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	id := r.PathValue("id")
	listed, err := m.listed(r.Context(), id)
	if err != nil {
		return nil, err
	}
	l := find(listed, id)
	if l == nil {
		return nil, api.Errorf(api.CodeNotFound, "no offer %.80q that is shown to you", id).Fix("see: GET /catalog")
	}
	if l.Seller == m.cluster {
		return show(l.Seller, l.Name, &l.Offer, nil), nil
	}
	return showListing(l), nil
}

// listed are the offers that one of an ID can be among.
func (m *member) listed(ctx context.Context, id string) ([]api.Envelope[api.Listing], error) {
	query := api.CatalogQuery{}
	if seller, _, owned := strings.Cut(id, "_"); owned {
		if len(seller) > 63 {
			return nil, nil
		}
		query.Seller = seller
	} else if err := server.CountLarge(ctx); err != nil {
		return nil, err
	}
	return m.Catalog(ctx, query)
}

var done = map[string]string{"status": "OK"}

func (b *broker) putOffer(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	var offer Offer
	if err := readBody(w, r, &offer); err != nil {
		return nil, err
	}
	if id := r.PathValue("id"); offer.OfferID == "" {
		offer.OfferID = id
	} else if offer.OfferID != id {
		return nil, api.Invalid("offerID", "%.80q is not the offer of the path", offer.OfferID).Fix("say the same ID in both")
	}
	return done, m.publish(r.Context(), "", []Offer{offer})
}

func (b *broker) putOffers(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	var offers []Offer
	if err := readBody(w, r, &offers); err != nil {
		return nil, err
	}
	if offers == nil {
		return nil, api.Invalid("body", "it is no array of offers").Fix("send [] or [{...}, ...]")
	}
	if len(offers) > api.MaxOffers {
		return nil, api.Invalid("body", "%d offers", len(offers)).Fix("a seller has at most %d", api.MaxOffers)
	}
	return done, m.publish(r.Context(), "offers", offers)
}

// publish puts on sale what the caller's agent signed: by the document that comes with an offer, or
// because it is on sale already; and takes off sale what has status false. An offer that nobody
// signed is refused, as no gate would sell it. All are looked at before anything is changed.
func (m *member) publish(ctx context.Context, field string, offers []Offer) error {
	own, err := m.own(ctx)
	if err != nil {
		return err
	}
	var changes []func() error
	for i := range offers {
		change, err := m.change(ctx, &offers[i], find(own, offers[i].OfferID))
		if err != nil {
			return within(field, i, err)
		}
		if change != nil {
			changes = append(changes, change)
		}
	}
	for _, change := range changes {
		if err := change(); err != nil {
			return err
		}
	}
	return nil
}

// change is what an offer changes, nil if nothing; on is what is on sale by its ID, nil if nothing is.
func (m *member) change(ctx context.Context, o *Offer, on *api.Listing) (func() error, error) {
	var was *api.OfferSpec
	if on != nil {
		was = &on.Offer
	}
	if o.Document != "" {
		signed, err := market.ReadOffer(o.Document)
		if err != nil {
			return nil, err
		}
		name, said, err := o.read(m.cluster, &signed.Signed.Offer)
		if err != nil {
			return nil, err
		}
		if name != signed.Signed.Name || !sameSale(&signed.Signed.Offer, &said) {
			return nil, api.Invalid("document", "it is offer %s, and says something else", signed.Key()).
				Fix("send the document of what is said beside it")
		}
		return func() error { return m.PublishOffer(ctx, m.cluster, name, o.Document) }, nil
	}
	_, spec, err := o.read(m.cluster, was)
	switch {
	case err != nil:
		return nil, err
	case spec.Draft && on != nil:
		return func() error { return m.WithdrawOffer(ctx, m.cluster, on.Name) }, nil
	case spec.Draft, was != nil && sameSale(was, &spec):
		return nil, nil
	}
	return nil, api.Errorf(api.CodeConflict, "offer %.80s is not signed by %s's cluster key, so nobody could buy it",
		o.OfferID, m.cluster).At("document").
		Fix("post it at the agent of %s, which signs it and puts it on sale here: POST /api/offers there", m.cluster)
}

// sameSale says whether two say the same to buyers. When they were written, and by which words,
// does not count.
func sameSale(a, b *api.OfferSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, label := range []string{labelCreated, labelRAM} {
		delete(a.Labels, label)
		delete(b.Labels, label)
	}
	return equality.Semantic.DeepEqual(a, b)
}

func within(field string, i int, err error) error {
	wrong, ok := errors.AsType[*api.Error](err)
	if !ok || field == "" {
		return err
	}
	at := *wrong
	at.Field = strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", field, i, wrong.Field), ".")
	return &at
}

// deleteOffer takes an offer off sale. One that is not there is off sale already; another's is never touched.
func (b *broker) deleteOffer(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	id := r.PathValue("id")
	own, err := m.own(r.Context())
	if err != nil {
		return nil, err
	}
	if l := find(own, id); l != nil {
		return done, m.WithdrawOffer(r.Context(), m.cluster, l.Name)
	}
	listed, err := m.listed(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if l := find(listed, id); l != nil {
		return nil, api.Errorf(api.CodeForbidden, "cluster %s may not take offer %.80q of %s off sale",
			m.cluster, id, l.Seller).Fix("ask %s", l.Seller)
	}
	return done, nil
}

// deleteCluster takes all that the caller sells off sale, and ends its tokens. Its membership, by
// which what it bought and sold is bound, only the operator ends.
func (b *broker) deleteCluster(_ http.ResponseWriter, r *http.Request, m *member) (any, error) {
	own, err := m.own(r.Context())
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		if err := m.WithdrawOffer(r.Context(), m.cluster, l.Payload.Name); err != nil {
			return nil, err
		}
	}
	b.sessions.end(m.cluster)
	return done, nil
}

// subscribe sends what others sell, and from then on each provider whose offers change.
func (b *broker) subscribe(w http.ResponseWriter, r *http.Request) {
	m, revision := b.member(r), func() uint64 { return b.Server.Exchange.View().Revision }
	last := revision()
	b.subscribers.serve(w, r, m.cluster, feed{
		every: lookSoon,
		read: func() (first []Catalog, away, ok bool) {
			first, err := b.others(r.Context(), m)
			if err != nil {
				refuse(w, r, err)
			}
			return first, false, err == nil
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
