// Package settings has what the flags of an agent say: it checks them and adds the defaults. Start
// at [Parse].
package settings

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/direct"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/quantities"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Options say how an agent runs. The zero value of a field is its default.
type Options struct {
	// Kubernetes is how to reach the cluster's API server. Required.
	Kubernetes *rest.Config
	// Namespace has the agent's own objects. Default "bourse". Account is its ServiceAccount there. Default "bourse-agent".
	Namespace, Account string
	// AdvertisementName is the name of the Advertisement there. Default "cluster".
	AdvertisementName string
	// LeaderElect lets one of several replicas lead.
	LeaderElect bool
	Member      Member
	Liqo        Liqo
	Times       Times
	Peers       Peers
	Listen      Listen
	Simulated   Simulated
	Log         *slog.Logger
}

// Member says which cluster this is, and how it joins its main broker.
type Member struct {
	// ClusterID names the cluster. Default: Liqo's ID, or without Liqo the UID of kube-system.
	ClusterID string
	// Identity keeps the keys. Default: the Secret "bourse-identity".
	Identity store.Store
	// Join is a join token. It is needed once. BrokerURL overrides the URL in it.
	Join, BrokerURL string
	// JoinSecret is the Secret in the agent's namespace that holds the token under "token". Join comes before it.
	// Default: "bourse-join".
	JoinSecret string
	// NoBroker: the cluster has no main broker. It deals with the clusters that its admin added.
	NoBroker bool
	// CertDir holds tls.crt, tls.key and ca.crt for a broker without its own CA. It replaces Join.
	CertDir string
	// Objects reach the broker through objects in its cluster. Nil: the agent calls its REST API.
	Objects *objects.Access
	// Endorsement is the document (JWS) in which a root confirms this cluster's key. The card shows it.
	Endorsement string
}

// Liqo says how the agent uses its cluster's Liqo.
type Liqo struct {
	// Off: the agent does not use Liqo, nor wait for its cluster ID.
	Off bool
	// Namespace is Liqo's. Default "liqo".
	Namespace string
	// APIServer is the URL at which peers reach this cluster's API server. Default: as Liqo is configured.
	APIServer string
	// Gateway is how peers reach the gateway of Liqo's network: none (the default), outbound,
	// NodePort, LoadBalancer.
	Gateway string
}

// Times are how often something is done, and how long something lasts.
type Times struct {
	// Advertise is how often the cluster advertises without a change. Default 30 s.
	Advertise time.Duration
	// Aligned: the cluster advertises at the multiples of that on the clock.
	Aligned bool
	// Linger is how long a peering stays that no reservation uses. Default 10 min; negative: not at all.
	Linger time.Duration
	// Abandon is how long the end of a peering waits for the other cluster. Default 2 min.
	Abandon time.Duration
	// Shrink is how long pods may stay that no longer fit. Default 30 s. Excess is how long after that the
	// provider deletes them. Default 60 s.
	Shrink, Excess time.Duration
	// Dead is how long a pool's virtual node may be NotReady before its provider is replaced. Default 3 min.
	Dead time.Duration
}

// Peers says which clusters and addresses the agent trusts.
type Peers struct {
	// Roots are the public keys whose endorsements confirm the keys of others, in base64url.
	Roots []string
	// Ranges are CIDRs that peers may name as their own although they are loopback, link-local or
	// this cluster's.
	Ranges []string
}

// Listen says where the agent listens. Empty: not.
type Listen struct {
	// Socket and Loopback are for users of the cluster: a unix socket, and an address whose callers
	// have the token in TokenFile. With DistributedCatalog, both also serve the API of that
	// prototype's connector.
	Socket, Loopback, TokenFile string
	DistributedCatalog          bool
	// Questions is for users who have a Session, on loopback. Default "127.0.0.1:0". Pod is the name of the agent's pod,
	// whose port they forward; empty: the agent runs outside a pod.
	Questions, Pod string
	// Connector is for clusters that know this one, without a broker. ConnectorURL is where they reach it.
	Connector, ConnectorURL string
	// Health serves /livez and /readyz, and Metrics /metrics. "0": not.
	Health, Metrics string
}

// Simulated is what only a simulation sets, such as that of `bourse demo`. No flag does.
type Simulated struct {
	// VirtualNodes: the cluster has no Liqo, and the simulation makes the virtual nodes of its VirtualNodePools.
	VirtualNodes bool
	// Clock is that of the markets. Default: the machine's.
	Clock exchange.Clock
}

// Settings are Options with their defaults, and their texts parsed.
type Settings struct {
	Options
	Gateway network.Gateway
	Ranges  []netip.Prefix
	Roots   []clusterkey.PublicKey
	// Quantities looks at the amounts of Liqo's objects that Kubernetes answers with.
	Quantities *quantities.Checked
}

// Parse checks options and adds the defaults. Errors: Invalid with the flag.
func Parse(o Options) (s Settings, err error) {
	o.Namespace, o.Liqo.Namespace = cmp.Or(o.Namespace, api.Namespace), cmp.Or(o.Liqo.Namespace, "liqo")
	o.Member.JoinSecret = cmp.Or(o.Member.JoinSecret, "bourse-join")
	o.AdvertisementName = cmp.Or(o.AdvertisementName, "cluster")
	o.Times.Advertise = cmp.Or(o.Times.Advertise, 30*time.Second)
	o.Times.Linger, o.Times.Abandon = cmp.Or(o.Times.Linger, 10*time.Minute), cmp.Or(o.Times.Abandon, 2*time.Minute)
	o.Times.Shrink, o.Times.Excess = cmp.Or(o.Times.Shrink, 30*time.Second), cmp.Or(o.Times.Excess, time.Minute)
	o.Listen.Questions = cmp.Or(o.Listen.Questions, "127.0.0.1:0")
	o.Log = cmp.Or(o.Log, slog.Default())
	checked := &quantities.Checked{}
	o.Kubernetes = checked.Wrap(o.Kubernetes)
	o.Kubernetes.QPS = cmp.Or(o.Kubernetes.QPS, -1) // the API server has its own fair limits
	if o.Liqo.Off {
		o.Liqo.Namespace = ""
	}
	if m := o.Member; m.NoBroker && (m.Join != "" || m.BrokerURL != "" || m.CertDir != "" || m.Objects != nil) {
		return s, api.Invalid("--without-broker", "another flag names a broker").
			Fix("leave out --join (and BOURSE_JOIN), --broker-url, --broker-cert-path and --broker-kubeconfig; " +
				"or --without-broker")
	}
	s.Options, s.Quantities = o, checked
	if s.Gateway, err = network.Parse(o.Liqo.Gateway); err != nil {
		return s, err
	}
	if s.Ranges, err = peeraddress.ParseRanges(o.Peers.Ranges); err != nil {
		return s, err
	}
	if s.Roots, err = peers.ParseRoots(o.Peers.Roots); err != nil {
		return s, err
	}
	return s, direct.CheckConnector(o.Listen.Connector, o.Listen.ConnectorURL)
}
