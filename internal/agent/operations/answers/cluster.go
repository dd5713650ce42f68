package answers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ClusterOptions say which cluster it is, and what the agent does for its users.
type ClusterOptions struct {
	Client client.Client
	// Cluster is the ID of this cluster, and Namespace the agent's.
	Cluster, Namespace string
	Ledger             *exchange.Exchange
	// PodsOn returns the pods on a node, as NAMESPACE/NAME, in order.
	PodsOn func(node string) []string
	Member Member
	// Sharing is the SharingPolicy in force, nil if there is none.
	Sharing  func() *api.Sharing
	Gate     Gate
	Requests Requests
	Brokers  BrokerList
	Doctor   Doctor
	Preview  Preview
}

// Preview shows what this cluster would share.
type Preview interface {
	// Preview returns what a SharingPolicy would change for the clusters that a broker shows. Errors: Invalid.
	Preview(ctx context.Context, next api.Sharing, others []api.Envelope[api.Cluster]) (api.SharingPreview, error)
}

// Member is this cluster as a member of the main broker.
type Member interface {
	Key() *clusterkey.Key
	// URL is where the main broker is.
	URL() string
	// Rotate gives the cluster a new key and returns its fingerprint. The agent then starts again.
	Rotate(ctx context.Context, from string) (to string, err error)
}

// Gate decides what this cluster lends.
type Gate interface {
	// DigestLent returns the digest that an eviction of a Peer names now. Empty: nothing is lent to it.
	DigestLent(ctx context.Context, peer client.Object) (string, error)
}

// Requests makes reservations of ResourceRequests and VirtualNodePools.
type Requests interface {
	// CheckAsk returns why this cluster asks no broker for a request.
	CheckAsk(ctx context.Context, r api.Request) error
	// CheckOffload returns why a request of a namespace cannot offload what it names.
	CheckOffload(ctx context.Context, namespace string, o *api.Offload) error
	// FindStickTo returns the providers that have the volumes of a request.
	FindStickTo(ctx context.Context, object *api.ResourceRequest) ([]string, error)
	// FindRefused returns why this cluster would pass over providers that it uses already for a request, by
	// provider.
	FindRefused(ctx context.Context, object *api.ResourceRequest) (map[string]error, error)
	// FindPassedOver returns the same for each new request.
	FindPassedOver(ctx context.Context) (map[string]error, error)
	// FindDisabled returns those of the providers that this cluster's choices at its brokers do not permit.
	FindDisabled(ctx context.Context, providers []string) []string
	// CheckCard returns why this cluster would pass over a provider that shows a card, nil if it would not. It
	// pins no key.
	CheckCard(ctx context.Context, object *api.ResourceRequest, provider, signed string) (refused, err error)
	// FindVolumes returns the volumes that would be deleted if the reservations of a request ended
	// now, nil if none.
	FindVolumes(ctx context.Context, object *api.ResourceRequest) (*api.Volumes, error)
	// EndUnknown ends a reservation that no ResourceRequest made.
	EndUnknown(ctx context.Context, id string) error
	// PlanPool returns the status that a VirtualNodePool would have. It writes nothing. Errors: Invalid.
	PlanPool(ctx context.Context, pool *api.VirtualNodePool) (api.VirtualNodePoolStatus, error)
}

// BrokerList is the brokers of this cluster.
type BrokerList interface {
	MainState() session.State
	RetryMain()
	List(ctx context.Context) ([]api.Envelope[api.KnownBroker], error)
}

// Doctor finds problems.
type Doctor interface {
	Diagnose(ctx context.Context) []api.Problem
	// Audit returns what Liqo and Kubernetes let another cluster do here. Errors: NotFound.
	Audit(ctx context.Context, cluster string) (*api.Audit, error)
}

// Cluster is what users read and write of their own cluster.
type Cluster struct{ o ClusterOptions }

var _ server.ClusterAPI = &Cluster{}

// NewCluster returns what users read and write of this cluster.
func NewCluster(o ClusterOptions) *Cluster { return &Cluster{o} }

// Status returns who the cluster is, and how the connection to its main broker is. If that is lost, the
// agent tries again at once.
func (c *Cluster) Status(context.Context) (api.AgentStatus, error) {
	connection := c.o.Brokers.MainState()
	c.o.Brokers.RetryMain()
	s := api.AgentStatus{
		Cluster: c.o.Cluster, Fingerprint: c.o.Member.Key().Public().Fingerprint().String(), Broker: c.o.Member.URL(),
		Connected: connection.Connected, LastHeard: metav1.NewTime(connection.Last), Sharing: c.o.Sharing() != nil,
	}
	if connection.Err != nil {
		s.Problem = connection.Err.Error()
	}
	return s, nil
}

// RotateKey gives this cluster a new key. It answers before the agent starts again.
func (c *Cluster) RotateKey(ctx context.Context, r api.KeyRotation) (api.KeyRotated, error) {
	to, err := c.o.Member.Rotate(ctx, r.From)
	return api.KeyRotated{Fingerprint: to}, err
}

// Diagnose returns all problems, worst first.
func (c *Cluster) Diagnose(ctx context.Context) api.Diagnosis {
	return api.Diagnosis{Problems: c.o.Doctor.Diagnose(ctx)}
}

// Audit returns what another cluster can do in this one: what Liqo and Kubernetes let it do, what it has
// reserved, and which key it has.
func (c *Cluster) Audit(ctx context.Context, cluster string) (*api.Audit, error) {
	if err := market.ValidCluster("cluster", cluster); err != nil {
		return nil, err
	}
	// The digest comes first: what is read later is what it stands for, or the eviction is refused.
	digest, err := c.digestLent(ctx, cluster)
	if err != nil {
		return nil, err
	}
	audit, err := c.o.Doctor.Audit(ctx, cluster)
	if err != nil {
		return nil, err
	}
	audit.Digest = digest
	lent, err := readLedger(ctx, c.o.Ledger.Lent)
	if err != nil {
		return nil, err
	}
	audit.Reservations = map[string]api.Resources{}
	for _, r := range lent {
		if r.Consumer == cluster && r.State.Counts() {
			audit.Reservations[r.ID] = r.Size.Resources()
		}
	}
	if key, err := trust.Key(ctx, c.o.Ledger, cluster); err == nil {
		audit.Fingerprint = key.Fingerprint().String()
	}
	return audit, nil
}

// PreviewSharing returns what a SharingPolicy would change. It writes nothing. Errors: Invalid.
func (c *Cluster) PreviewSharing(ctx context.Context, spec api.Sharing,
	others []api.Envelope[api.Cluster]) (api.SharingPreview, error) {
	return c.o.Preview.Preview(ctx, spec, others)
}

// digestLent returns the digest that an eviction of a cluster names now, empty for one that has nothing here.
func (c *Cluster) digestLent(ctx context.Context, cluster string) (string, error) {
	var peer api.Peer
	err := c.o.Client.Get(ctx, client.ObjectKey{Namespace: c.o.Namespace, Name: cluster}, &peer)
	if err != nil {
		return "", kubeobject.Error(client.IgnoreNotFound(err))
	}
	return c.o.Gate.DigestLent(ctx, &peer)
}
