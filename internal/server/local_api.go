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
	// Preview returns what a broker would decide about such a ResourceRequest, without the providers that this
	// cluster would pass over. Errors: Invalid, Unavailable; why the only provider is passed over that the
	// request may have.
	Preview(ctx context.Context, broker transport.Broker, q api.DryRun) (api.Evaluation, error)
	// PassedOver returns why this cluster passes over some of the providers for each new request, by provider.
	PassedOver(ctx context.Context, providers []string) (map[string]error, error)
	// Impact returns what would end with a ResourceRequest. Errors: NotFound; Unavailable.
	Impact(ctx context.Context, namespace, name string) (api.Impact, error)
	// EndUnknown ends a reservation that this cluster signed and has no request for. Errors: NotFound.
	EndUnknown(ctx context.Context, id string) error
	// Diagnose returns the problems of this cluster, the worst first.
	Diagnose(ctx context.Context) api.Diagnosis
	// Audit lists what another cluster can do in this one. Errors: NotFound if it can do nothing.
	Audit(ctx context.Context, cluster string) (*api.Audit, error)
	// PlanVirtualNodePool returns the status that a VirtualNodePool would have. It writes nothing. Errors:
	// Invalid, Unavailable.
	PlanVirtualNodePool(ctx context.Context, name string, spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error)
	// PreviewSharing returns what a SharingPolicy would change, for the clusters that a broker shows. It writes
	// nothing. Errors: Invalid, Unavailable.
	PreviewSharing(ctx context.Context, spec api.Sharing, others []api.Envelope[api.Cluster]) (api.SharingPreview, error)
	// Brokers returns the brokers of the cluster, the main one first.
	Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error)
	// RotateKey gives this cluster a new key, signed by its current one. It may be repeated. Errors: Conflict
	// if the key to be replaced is neither the current nor the previous one.
	RotateKey(ctx context.Context, r api.KeyRotation) (api.KeyRotated, error)
}
