package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Reservation is a reservation with its ID and revision.
type Reservation = api.Envelope[api.Reservation]

// Clusters lists the clusters that show themselves to the caller.
func (c *Client) Clusters(ctx context.Context) ([]api.Envelope[api.Cluster], error) {
	return list[api.Cluster](ctx, c, "/clusters", nil)
}

// ClustersAfter reads a page of the clusters that show themselves to the caller, in the order of their IDs: at most limit
// of those after an ID. next is the after of the next page, empty at the end.
func (c *Client) ClustersAfter(ctx context.Context, after string,
	limit int) (items []api.Envelope[api.Cluster], next string, err error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "continue": {after}}
	items, next, _, err = nextPage(ctx, c, "/clusters", query, manyParts, []api.Envelope[api.Cluster]{})
	return items, next, err
}

// Cluster reads one cluster.
func (c *Client) Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error) {
	return fetchEnvelope[api.Cluster](ctx, c, http.MethodGet, "/clusters/"+url.PathEscape(id), nil, nil)
}

// PutCard shows a signed card of a cluster.
func (c *Client) PutCard(ctx context.Context, cluster, signed string) error {
	return c.call(ctx, http.MethodPut, "/clusters/"+url.PathEscape(cluster)+"/card",
		nil, api.SignedDocument{Document: signed}, nil)
}

// SendHandshake passes a signed handshake message on to another cluster.
func (c *Client) SendHandshake(ctx context.Context, cluster, document string) error {
	return c.call(ctx, http.MethodPut, "/clusters/"+url.PathEscape(cluster)+"/handshake",
		nil, api.SignedDocument{Document: document}, nil)
}

// PutAdvertisement advertises a cluster, whole.
func (c *Client) PutAdvertisement(ctx context.Context, cluster string, m api.Measurement) error {
	return c.call(ctx, http.MethodPut, "/clusters/"+url.PathEscape(cluster)+"/advertisement", nil, m, nil)
}

// PatchAdvertisement advertises what changed.
func (c *Client) PatchAdvertisement(ctx context.Context, cluster string, d api.MeasurementDelta) error {
	return c.call(ctx, http.MethodPatch, "/clusters/"+url.PathEscape(cluster)+"/advertisement", nil, d, nil)
}

// Catalog searches the offers that are shown to the caller.
func (c *Client) Catalog(ctx context.Context, q api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"text": q.Text, "seller": q.Seller, "type": q.Type, "region": q.Region, "gpu": q.GPU,
		"sellerGpu": q.SellerGPU, "currency": q.Currency,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Available {
		query.Set("available", "true")
	}
	if q.For > 0 {
		query.Set("for", q.For.String())
	}
	if q.Hidden {
		query.Set("hidden", "true")
	}
	if p := q.MaxPrice; p != nil {
		query.Set("maxPrice", p.Amount+p.Currency+"/"+string(p.Period))
	}
	if q.Uptime > 0 {
		query.Set("uptime", strconv.FormatInt(q.Uptime, 10))
	}
	if q.Sort != api.ByName {
		query.Set("sort", string(q.Sort))
	}
	return list[api.Listing](ctx, c, "/catalog", query)
}

// Offer reads one offer.
func (c *Client) Offer(ctx context.Context, seller, name string) (api.Envelope[api.Listing], error) {
	return fetchEnvelope[api.Listing](ctx, c, http.MethodGet,
		"/catalog/"+url.PathEscape(seller)+"/"+url.PathEscape(name), nil, nil)
}

// PublishOffer puts a signed offer of a cluster on sale.
func (c *Client) PublishOffer(ctx context.Context, cluster, name, signed string) error {
	return c.call(ctx, http.MethodPut, "/clusters/"+url.PathEscape(cluster)+"/offers/"+url.PathEscape(name),
		nil, api.SignedDocument{Document: signed}, nil)
}

// WithdrawOffer takes an offer of a cluster off sale.
func (c *Client) WithdrawOffer(ctx context.Context, cluster, name string) error {
	return c.call(ctx, http.MethodDelete,
		"/clusters/"+url.PathEscape(cluster)+"/offers/"+url.PathEscape(name), nil, nil, nil)
}

// Evaluate decides without reserving.
func (c *Client) Evaluate(ctx context.Context, r api.Request) (api.Evaluation, error) {
	return c.Fit(ctx, api.EvaluationCreate{Request: r})
}

// Fit says how much of a request fits where, in Fits of the evaluation. A broker and an agent answer it.
func (c *Client) Fit(ctx context.Context, r api.EvaluationCreate) (api.Evaluation, error) {
	return fetch[api.Evaluation](ctx, c, manyParts, http.MethodPost, "/evaluations", r)
}

// Reserve holds capacity for a request. Repeating it with the same key changes nothing and returns the
// same reservation. A request that no cluster can serve is a reservation in state Rejected.
func (c *Client) Reserve(ctx context.Context, key string, r api.Request) (Reservation, error) {
	return fetchEnvelope[api.Reservation](ctx, c, http.MethodPost, "/reservations",
		http.Header{"Idempotency-Key": {key}}, api.ReservationCreate{Request: r})
}

// Adopt shows a broker what both parties signed of a reservation that it does not know.
func (c *Client) Adopt(ctx context.Context, id string, a api.Agreement) (Reservation, error) {
	return fetchEnvelope[api.Reservation](ctx, c, http.MethodPost, "/reservations/"+url.PathEscape(id)+"/adopt", nil, a)
}

// Reservations lists the reservations of the caller, as consumer and as provider.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	return list[api.Reservation](ctx, c, "/reservations", nil)
}

// Reservation reads one, with its decision if the caller is the consumer.
func (c *Client) Reservation(ctx context.Context, id string) (Reservation, error) {
	return fetchEnvelope[api.Reservation](ctx, c, http.MethodGet, "/reservations/"+url.PathEscape(id), nil, nil)
}

func (c *Client) act(ctx context.Context, id, verb string, in any) (Reservation, error) {
	return fetchEnvelope[api.Reservation](ctx, c, http.MethodPost, "/reservations/"+url.PathEscape(id)+"/"+verb, nil, in)
}

// Confirm sends the consumer's signed assignment.
func (c *Client) Confirm(ctx context.Context, id, assignment string) (Reservation, error) {
	return c.act(ctx, id, "confirm", api.SignedDocument{Document: assignment})
}

// Accept sends the provider's signed acceptance.
func (c *Client) Accept(ctx context.Context, id, acceptance string) (Reservation, error) {
	return c.act(ctx, id, "accept", api.SignedDocument{Document: acceptance})
}

// Refuse sends the provider's no.
func (c *Client) Refuse(ctx context.Context, id string, r api.Refusal) (Reservation, error) {
	return c.act(ctx, id, "refuse", r)
}

// Release sends either party's signed end.
func (c *Client) Release(ctx context.Context, id, end string) (Reservation, error) {
	return c.act(ctx, id, "release", api.SignedDocument{Document: end})
}

// Progress reports that a reservation is Active or Released.
func (c *Client) Progress(ctx context.Context, id string, state api.State) (Reservation, error) {
	return c.act(ctx, id, "progress", api.Progress{State: state})
}

// Renew sends a request for another certificate, made by package identity/join. It needs no certificate.
func (c *Client) Renew(ctx context.Context, renewal any) (api.Joined, error) {
	return fetch[api.Joined](ctx, c, onePayload, http.MethodPost, "/renew", renewal)
}

// Join sends a request to join, made by package identity/join.
func (c *Client) Join(ctx context.Context, submission any) (api.Joined, error) {
	return fetch[api.Joined](ctx, c, onePayload, http.MethodPost, "/join", submission)
}

// CreateOperator ends all certificates of operators and makes another, by the broker's local
// socket. csr is DER; empty: none is made.
func (c *Client) CreateOperator(ctx context.Context, csr []byte, name string) (api.OperatorCertificateCreated, error) {
	return fetch[api.OperatorCertificateCreated](ctx, c, onePayload, http.MethodPost, "/operators",
		api.OperatorCertificateCreate{CSR: csr, Name: name})
}

// Members lists the members, for operators.
func (c *Client) Members(ctx context.Context) ([]api.Envelope[api.Member], error) {
	return list[api.Member](ctx, c, "/members", nil)
}

// SetMember takes a step with a member: approve, suspend, resume, revoke or remove.
func (c *Client) SetMember(ctx context.Context, cluster, step string) (api.Envelope[api.Member], error) {
	return fetchEnvelope[api.Member](ctx, c, http.MethodPost,
		"/members/"+url.PathEscape(cluster)+"/"+url.PathEscape(step), nil, nil)
}

// SetCaps says how much one member may have, for operators. Errors: NotFound, Invalid.
func (c *Client) SetCaps(ctx context.Context, cluster string, caps api.Caps) (api.Envelope[api.Member], error) {
	return fetchEnvelope[api.Member](ctx, c, http.MethodPut, "/members/"+url.PathEscape(cluster)+"/caps", nil, caps)
}

// Tokens lists the join tokens, for operators.
func (c *Client) Tokens(ctx context.Context) ([]api.Envelope[api.Token], error) {
	return list[api.Token](ctx, c, "/tokens", nil)
}

// DeleteToken makes a join token void that no cluster has used.
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/tokens/"+url.PathEscape(id), nil, nil, nil)
}

// BrokerStatus reads the state of a broker, for operators.
func (c *Client) BrokerStatus(ctx context.Context) (s api.BrokerState, err error) {
	return s, c.call(ctx, http.MethodGet, "/broker", nil, nil, &s)
}

// CreateToken makes a join token, for one cluster if that is not empty; ttl 0 is the broker's default.
func (c *Client) CreateToken(ctx context.Context, cluster string, ttl time.Duration) (api.TokenCreated, error) {
	return fetch[api.TokenCreated](ctx, c, onePayload, http.MethodPost, "/tokens",
		api.TokenCreate{Cluster: cluster, TTL: metav1.Duration{Duration: ttl}})
}

// SignCSR makes the certificate of a cluster whose agent is of the prototypes from a certificate
// request (PEM), for operators; life 0 is the broker's default. Errors: Invalid; Conflict where the
// broker does not serve such agents, or the cluster has a key of its own.
func (c *Client) SignCSR(ctx context.Context, cluster, request string,
	life time.Duration) (api.CertificateCreated, error) {
	return fetch[api.CertificateCreated](ctx, c, onePayload, http.MethodPost,
		"/members/"+url.PathEscape(cluster)+"/certificate",
		api.CertificateCreate{Request: request, Duration: metav1.Duration{Duration: life}})
}

// Backup writes a backup of the broker to w: all that it must not lose, its CA's key among it. Only
// the socket for operators has it.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	response, err := c.request(ctx, http.MethodGet, "/backup", nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, response.Body)
	return err
}
