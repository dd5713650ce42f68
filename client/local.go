package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/bourse-dev/bourse/api"
)

// RequestStatus is a ResourceRequest; its ID is "namespace/name".
type RequestStatus = api.Envelope[api.RequestStatus]

// Status reads how an agent stands. It and what follows are served by agents only.
func (c *Client) Status(ctx context.Context) (api.AgentStatus, error) {
	return fetch[api.AgentStatus](ctx, c, manyParts, http.MethodGet, "/status", nil)
}

// MakeRequest makes a ResourceRequest in the agent's cluster.
func (c *Client) MakeRequest(ctx context.Context, r api.RequestCreate) (RequestStatus, error) {
	return fetchEnvelope[api.RequestStatus](ctx, c, http.MethodPost, "/requests", nil, r)
}

// DryRun decides what a ResourceRequest would get, without making it.
func (c *Client) DryRun(ctx context.Context, r api.RequestCreate) (api.Evaluation, error) {
	return fetch[api.Evaluation](ctx, c, manyParts, http.MethodPost, "/evaluations", r)
}

// Request reads a ResourceRequest.
func (c *Client) Request(ctx context.Context, namespace, name string) (RequestStatus, error) {
	return fetchEnvelope[api.RequestStatus](ctx, c, http.MethodGet, requestPath(namespace, name), nil, nil)
}

// Impact returns what would end with a ResourceRequest if it were released now.
func (c *Client) Impact(ctx context.Context, namespace, name string) (api.Impact, error) {
	return fetch[api.Impact](ctx, c, onePayload, http.MethodGet, requestPath(namespace, name)+"/impact", nil)
}

// Requests lists the ResourceRequests of the agent's cluster.
func (c *Client) Requests(ctx context.Context) ([]RequestStatus, error) {
	return list[api.RequestStatus](ctx, c, "/requests", nil)
}

// ConfirmRequest confirms a held ResourceRequest.
func (c *Client) ConfirmRequest(ctx context.Context, namespace, name string) (RequestStatus, error) {
	return fetchEnvelope[api.RequestStatus](ctx, c, http.MethodPost, requestPath(namespace, name)+"/confirm", nil, nil)
}

// Offers lists what the agent's cluster sells.
func (c *Client) Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error) {
	return list[api.OwnOffer](ctx, c, "/offers", nil)
}

// PutOffer makes an Offer of the agent's cluster, or changes it.
func (c *Client) PutOffer(ctx context.Context, name string, spec api.OfferSpec) (api.Envelope[api.OwnOffer], error) {
	return fetchEnvelope[api.OwnOffer](ctx, c, http.MethodPut, "/offers/"+url.PathEscape(name), nil, spec)
}

// DeleteOffer deletes an Offer of the agent's cluster.
func (c *Client) DeleteOffer(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/offers/"+url.PathEscape(name), nil, nil, nil)
}

// Contracts lists what the agent's cluster bought and sold.
func (c *Client) Contracts(ctx context.Context) ([]api.Envelope[api.Deal], error) {
	return list[api.Deal](ctx, c, "/contracts", nil)
}

// Reclaim takes back what the agent's cluster sold, with the notice of its plan.
func (c *Client) Reclaim(ctx context.Context, id string) (r api.Reclaimed, err error) {
	return r, c.call(ctx, http.MethodPost, "/contracts/"+url.PathEscape(id)+"/reclaim", nil, nil, &r)
}

// Approvals lists what waits for a person of the agent's cluster.
func (c *Client) Approvals(ctx context.Context) ([]api.Envelope[api.Approval], error) {
	return list[api.Approval](ctx, c, "/approvals", nil)
}

// Answer approves or refuses a request that waits for approval.
func (c *Client) Answer(ctx context.Context, id string, word api.Answer) error {
	return c.call(ctx, http.MethodPost, "/approvals/"+url.PathEscape(id), nil, word, nil)
}

// ReleaseLocally deletes the ResourceRequest behind a reservation. Errors: VolumesAtStake if that
// would delete volumes that the body does not give up.
func (c *Client) ReleaseLocally(ctx context.Context, id string, r api.Release) error {
	return c.call(ctx, http.MethodPost, "/reservations/"+url.PathEscape(id)+"/release", nil, r, nil)
}

// ChangeLocally edits the ResourceRequest behind a reservation.
func (c *Client) ChangeLocally(ctx context.Context, id string, change api.ReservationChange) (RequestStatus, error) {
	return fetchEnvelope[api.RequestStatus](ctx, c, http.MethodPatch, "/reservations/"+url.PathEscape(id), nil, change)
}

func requestPath(namespace, name string) string {
	return "/requests/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// Peers lists the clusters that the agent's cluster has met, or whose key its admin named.
func (c *Client) Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error) {
	return list[api.KnownPeer](ctx, c, "/peers", nil)
}

// Trust confirms the key of a cluster; an empty fingerprint withdraws the confirmation.
func (c *Client) Trust(ctx context.Context, cluster, fingerprint string) (api.Envelope[api.KnownPeer], error) {
	return fetchEnvelope[api.KnownPeer](ctx, c, http.MethodPut, "/peers/"+url.PathEscape(cluster),
		nil, api.PeerSpec{Fingerprint: fingerprint})
}

// AddPeer says which key a cluster has, and at which address (HOST:PORT) its connector is; an empty address
// changes none.
func (c *Client) AddPeer(ctx context.Context,
	cluster, fingerprint, address string) (api.Envelope[api.KnownPeer], error) {
	return fetchEnvelope[api.KnownPeer](ctx, c, http.MethodPut, "/peers/"+url.PathEscape(cluster),
		nil, api.PeerSpec{Fingerprint: fingerprint, Address: address})
}

// Diagnose returns the problems that the agent finds in its cluster.
func (c *Client) Diagnose(ctx context.Context) (d api.Diagnosis, err error) {
	return d, c.callFor(ctx, manyParts, http.MethodGet, "/diagnosis", nil, nil, &d)
}

// Audit lists what another cluster can do in the agent's, and what runs there for it.
func (c *Client) Audit(ctx context.Context, cluster string) (a api.Audit, err error) {
	return a, c.callFor(ctx, manyParts, http.MethodGet, "/peers/"+url.PathEscape(cluster)+"/audit", nil, nil, &a)
}

// Evict ends all that another cluster has reserved at the agent's.
func (c *Client) Evict(ctx context.Context, cluster string) (e api.Eviction, err error) {
	return e, c.callFor(ctx, manyParts, http.MethodPost, "/peers/"+url.PathEscape(cluster)+"/evict", nil, nil, &e)
}

// Suspend lets a cluster have nothing more at the agent's; what it has goes on. That cluster sees the
// reason, which may be empty.
func (c *Client) Suspend(ctx context.Context, cluster, reason string) (api.Envelope[api.KnownPeer], error) {
	return fetchEnvelope[api.KnownPeer](ctx, c, http.MethodPost, "/peers/"+url.PathEscape(cluster)+"/suspend",
		nil, api.Suspension{Reason: reason})
}

// Resume ends a suspension.
func (c *Client) Resume(ctx context.Context, cluster string) (api.Envelope[api.KnownPeer], error) {
	return fetchEnvelope[api.KnownPeer](ctx, c, http.MethodPost, "/peers/"+url.PathEscape(cluster)+"/resume", nil, nil)
}

// RotateKey has the agent make a new key for its cluster, signed by the one of this fingerprint.
func (c *Client) RotateKey(ctx context.Context, from string) (r api.KeyRotated, err error) {
	return r, c.call(ctx, http.MethodPost, "/key/rotate", nil, api.KeyRotation{From: from}, &r)
}

// VirtualNodePools lists the VirtualNodePools of the cluster, by name.
func (c *Client) VirtualNodePools(ctx context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error) {
	return list[api.KnownVirtualNodePool](ctx, c, "/virtual-node-pools", nil)
}

// PlanVirtualNodePool returns the status that a VirtualNodePool would have. Nothing is written.
func (c *Client) PlanVirtualNodePool(ctx context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	return fetch[api.VirtualNodePoolStatus](ctx, c, manyParts, http.MethodPost, poolPath(name)+"/plan", spec)
}

// AdmitProvider lets a provider serve a VirtualNodePool, or does not.
func (c *Client) AdmitProvider(ctx context.Context, name, provider string,
	admission api.Admission) (api.Envelope[api.KnownVirtualNodePool], error) {
	return fetchEnvelope[api.KnownVirtualNodePool](ctx, c, http.MethodPut,
		poolPath(name)+"/providers/"+url.PathEscape(provider), nil, admission)
}

// StopVirtualNodePool deletes a VirtualNodePool, which drains it. volumesDie gives volumes up. Errors:
// VolumesAtStake, with the digest, if there are volumes that it does not give up.
func (c *Client) StopVirtualNodePool(ctx context.Context, name, volumesDie string) error {
	path := poolPath(name)
	if volumesDie != "" {
		path += "?volumesDie=" + url.QueryEscape(volumesDie)
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

func poolPath(name string) string { return "/virtual-node-pools/" + url.PathEscape(name) }

// Brokers lists the brokers that the agent's cluster deals with, the main one first.
func (c *Client) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return list[api.KnownBroker](ctx, c, "/brokers", nil)
}

// PutBroker adds a broker that the agent's cluster deals with, or changes it.
func (c *Client) PutBroker(ctx context.Context, name string,
	spec api.BrokerSpec) (api.Envelope[api.KnownBroker], error) {
	return fetchEnvelope[api.KnownBroker](ctx, c, http.MethodPut, "/brokers/"+url.PathEscape(name), nil, spec)
}

// DeleteBroker removes one.
func (c *Client) DeleteBroker(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/brokers/"+url.PathEscape(name), nil, nil, nil)
}

// Propose proposes other terms for a plan to its seller.
func (c *Client) Propose(ctx context.Context, p api.ProposalCreate) (api.Envelope[api.KnownProposal], error) {
	return fetchEnvelope[api.KnownProposal](ctx, c, http.MethodPost, "/proposals", nil, p)
}

// SendProposal sends a signed proposal to the seller whose connector this is a client of.
func (c *Client) SendProposal(ctx context.Context, document string) (api.Envelope[api.KnownProposal], error) {
	return fetchEnvelope[api.KnownProposal](ctx, c, http.MethodPost, "/proposals", nil,
		api.SignedDocument{Document: document})
}

// Proposals lists the proposals that the agent's cluster made and received; at a connector, those of the caller.
func (c *Client) Proposals(ctx context.Context) ([]api.Envelope[api.KnownProposal], error) {
	return list[api.KnownProposal](ctx, c, "/proposals", nil)
}

// AnswerProposal puts an offer on sale for the buyer of a proposal alone, or declines it. Terms that are absent are
// as proposed.
func (c *Client) AnswerProposal(ctx context.Context,
	id string, t api.ProposalAnswer) (api.Envelope[api.KnownProposal], error) {
	return fetchEnvelope[api.KnownProposal](ctx, c, http.MethodPost, "/proposals/"+url.PathEscape(id), nil, t)
}
