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

// DryRun decides what a ResourceRequest would get, without making it.
func (c *Client) DryRun(ctx context.Context, r api.RequestCreate) (api.Evaluation, error) {
	return fetch[api.Evaluation](ctx, c, manyParts, http.MethodPost, "/evaluations", r)
}

// Impact returns what would end with a ResourceRequest if it were released now.
func (c *Client) Impact(ctx context.Context, namespace, name string) (api.Impact, error) {
	return fetch[api.Impact](ctx, c, onePayload, http.MethodGet, requestPath(namespace, name)+"/impact", nil)
}

func requestPath(namespace, name string) string {
	return "/requests/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// Diagnose returns the problems that the agent finds in its cluster.
func (c *Client) Diagnose(ctx context.Context) (d api.Diagnosis, err error) {
	return d, c.callFor(ctx, manyParts, http.MethodGet, "/diagnosis", nil, nil, &d)
}

// Audit lists what another cluster can do in the agent's, and what runs there for it.
func (c *Client) Audit(ctx context.Context, cluster string) (a api.Audit, err error) {
	return a, c.callFor(ctx, manyParts, http.MethodGet, "/peers/"+url.PathEscape(cluster)+"/audit", nil, nil, &a)
}

// RotateKey has the agent make a new key for its cluster, signed by the one of this fingerprint.
func (c *Client) RotateKey(ctx context.Context, from string) (r api.KeyRotated, err error) {
	return r, c.call(ctx, http.MethodPost, "/key/rotate", nil, api.KeyRotation{From: from}, &r)
}

// PlanVirtualNodePool returns the status that a VirtualNodePool would have. Nothing is written.
func (c *Client) PlanVirtualNodePool(ctx context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	return fetch[api.VirtualNodePoolStatus](ctx, c, manyParts, http.MethodPost, poolPath(name)+"/plan", spec)
}

// PreviewSharing returns what a SharingPolicy would change now. Nothing is written. Errors: Invalid, with the field.
func (c *Client) PreviewSharing(ctx context.Context, spec api.Sharing) (api.SharingPreview, error) {
	return fetch[api.SharingPreview](ctx, c, manyParts, http.MethodPost, "/sharing/preview", spec)
}

func poolPath(name string) string { return "/virtual-node-pools/" + url.PathEscape(name) }

// Brokers lists the brokers that the agent's cluster deals with, the main one first.
func (c *Client) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return list[api.KnownBroker](ctx, c, "/brokers", nil)
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

// EndUnknown ends a reservation that the agent's cluster signed and has no request for. Errors: NotFound.
func (c *Client) EndUnknown(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, "/reservations/"+url.PathEscape(id)+"/end", nil, nil, nil)
}
