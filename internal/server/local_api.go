package server

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
)

// ClusterAPI is what users do to the objects of their cluster through its agent. Methods that read one
// object return NotFound if it does not exist.
type ClusterAPI interface {
	// Status returns the cluster's identity and the state of its brokers.
	Status(ctx context.Context) (api.AgentStatus, error)
	// MakeRequest creates a ResourceRequest. Errors: Invalid; Conflict if it exists.
	MakeRequest(ctx context.Context, r api.RequestCreate) (api.Envelope[api.RequestStatus], error)
	// Preview returns what a broker would decide about such a ResourceRequest, without the providers that this
	// cluster would pass over. Errors: Invalid, Unavailable; why the only provider is passed over that the
	// request may have.
	Preview(ctx context.Context, broker transport.Broker, q api.DryRun) (api.Evaluation, error)
	// PassedOver returns why this cluster passes over some of the providers for each new request, by provider.
	PassedOver(ctx context.Context, providers []string) (map[string]error, error)
	Request(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error)
	Requests(ctx context.Context) ([]api.Envelope[api.RequestStatus], error)
	// ConfirmRequest confirms a held request. Errors: NotFound.
	ConfirmRequest(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error)
	// ChangeReservation edits the request behind a reservation. Errors: Invalid, NotFound, Conflict if it is
	// not bound.
	ChangeReservation(ctx context.Context, id string,
		change api.ReservationChange) (api.Envelope[api.RequestStatus], error)
	// ReleaseReservation deletes the request behind a reservation. Errors: NotFound, VolumesAtStake.
	ReleaseReservation(ctx context.Context, id string, r api.Release) error
	// Impact returns what would end with a ResourceRequest. Errors: NotFound; Unavailable.
	Impact(ctx context.Context, namespace, name string) (api.Impact, error)
	// Offers returns the offers of this cluster.
	Offers(ctx context.Context) ([]api.Envelope[api.OwnOffer], error)
	// PutOffer creates or changes an Offer. Errors: Invalid.
	PutOffer(ctx context.Context, name string, spec api.OfferSpec) (api.Envelope[api.OwnOffer], error)
	// DeleteOffer deletes an Offer. Errors: NotFound.
	DeleteOffer(ctx context.Context, name string) error
	// Deals returns the contracts of this cluster, as buyer and as seller.
	Deals(ctx context.Context) ([]api.Envelope[api.Deal], error)
	// Reclaim takes back a contract that this cluster sold, with its notice. Errors: NotFound, Forbidden,
	// Conflict.
	Reclaim(ctx context.Context, id string) (api.Reclaimed, error)
	// Propose proposes other terms for a plan to its seller. Errors: Invalid, NotFound; Unavailable if its
	// connector cannot be called.
	Propose(ctx context.Context, p api.ProposalCreate) (api.Envelope[api.KnownProposal], error)
	// Proposals returns those that this cluster received, and those that it made at sellers that answer.
	Proposals(ctx context.Context) ([]api.Envelope[api.KnownProposal], error)
	// AnswerProposal puts an offer on sale for the buyer of a proposal alone, with the terms that it
	// proposed unless others are named, or declines it. It may be repeated. Errors: NotFound, Conflict,
	// Invalid.
	AnswerProposal(ctx context.Context, id string, a api.ProposalAnswer) (api.Envelope[api.KnownProposal], error)
	// Approvals returns the requests that wait for approval, the longest wait first.
	Approvals(ctx context.Context) ([]api.Envelope[api.Approval], error)
	// Answer approves or refuses a request. It may be repeated. Errors: NotFound; Conflict if the
	// request does not wait, or differs from what the caller saw.
	Answer(ctx context.Context, id string, word api.Answer) error
	// Diagnose returns the problems of this cluster, the worst first.
	Diagnose(ctx context.Context) api.Diagnosis
	// Audit lists what another cluster can do in this one. Errors: NotFound if it can do nothing.
	Audit(ctx context.Context, cluster string) (*api.Audit, error)
	// Evict ends all reservations of another cluster here. It may be repeated.
	Evict(ctx context.Context, cluster string) (api.Eviction, error)
	// Peers returns the clusters that this one has met, and those whose key its admin named.
	Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error)
	// Trust sets the key of a cluster. Errors: Invalid.
	Trust(ctx context.Context, cluster string, spec api.PeerSpec) (api.Envelope[api.KnownPeer], error)
	// Suspend stops all new reservations of a cluster here. It may be repeated. Errors: Invalid.
	Suspend(ctx context.Context, cluster string, s api.Suspension) (api.Envelope[api.KnownPeer], error)
	// Resume undoes Suspend. It may be repeated. Errors: Invalid.
	Resume(ctx context.Context, cluster string) (api.Envelope[api.KnownPeer], error)
	// VirtualNodePools returns the VirtualNodePools of the cluster, by name.
	VirtualNodePools(ctx context.Context) ([]api.Envelope[api.KnownVirtualNodePool], error)
	// PlanVirtualNodePool returns the status that a VirtualNodePool would have. It writes nothing. Errors:
	// Invalid, Unavailable.
	PlanVirtualNodePool(ctx context.Context, name string, spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error)
	// AdmitProvider lets a provider serve a VirtualNodePool, or does not. It may be repeated. Errors:
	// NotFound, Invalid; Conflict if Git would undo it.
	AdmitProvider(ctx context.Context, name, provider string,
		admission api.Admission) (api.Envelope[api.KnownVirtualNodePool], error)
	// StopVirtualNodePool deletes a VirtualNodePool, which drains it. volumesDie is the digest of the volumes
	// that are given up. Errors: NotFound; Conflict if Git would make it again; VolumesAtStake.
	StopVirtualNodePool(ctx context.Context, name, volumesDie string) error
	// Brokers returns the brokers of the cluster, the main one first.
	Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error)
	// PutBroker adds or changes a broker. Errors: Invalid.
	PutBroker(ctx context.Context, name string, spec api.BrokerSpec) (api.Envelope[api.KnownBroker], error)
	// DeleteBroker removes a broker. Reservations made through it remain. Errors: NotFound.
	DeleteBroker(ctx context.Context, name string) error
	// RotateKey gives this cluster a new key, signed by its current one. It may be repeated. Errors: Conflict
	// if the key to be replaced is neither the current nor the previous one.
	RotateKey(ctx context.Context, r api.KeyRotation) (api.KeyRotated, error)
}
