package api

// NetworkMode is the kind of network between the pods of two clusters.
//
// +kubebuilder:validation:Enum=none;wireguard
type NetworkMode string

const (
	// NetworkNone: Bourse makes no network. A hand-made network stays as it is.
	NetworkNone NetworkMode = "none"
	// NetworkWireGuard is Liqo's network: a WireGuard tunnel between a gateway in each of the two clusters.
	NetworkWireGuard NetworkMode = "wireguard"
)

// APIServerAccess is how consumers reach a provider's API server.
//
// +kubebuilder:validation:Enum=direct;network
type APIServerAccess string

const (
	APIServerDirect  APIServerAccess = "direct"
	APIServerNetwork APIServerAccess = "network" // through the network between the two clusters, which then comes first
)

// HandshakeNetwork is one cluster's part of the network between two clusters. All of it is public.
// It comes once the peering is open, from the consumer first. If consumers reach the provider's API
// server through the network, it comes before that. A cluster sends all of it again when any part
// changes.
type HandshakeNetwork struct {
	// PodCIDRs and ExternalCIDRs are those of the sender. The receiver maps them if they overlap its own.
	PodCIDRs      []string `json:"podCIDRs,omitempty"`
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
	// Reachable says that others can dial the sender's gateway, Serves that it is the one to dial.
	Reachable bool `json:"reachable,omitempty"`
	Serves    bool `json:"serves,omitempty"`
	// Endpoint is the address to dial, once the sender's Liqo has published it.
	Endpoint *HandshakeEndpoint `json:"endpoint,omitempty"`
	// PublicKey is that of the sender's gateway.
	PublicKey []byte `json:"publicKey,omitempty"`
	// Proxy is the address of Liqo's proxy to the provider's API server, one of ExternalCIDRs. Only
	// a provider whose API server is reached through the network sends it.
	Proxy *HandshakeEndpoint `json:"proxy,omitempty"`
	// Over says that the sender takes no part in the network, or no longer. Why is the reason.
	Over bool   `json:"over,omitempty"`
	Why  string `json:"why,omitempty"`
}

// HandshakeEndpoint is the address of a gateway or a proxy.
type HandshakeEndpoint struct {
	// Addresses are IP addresses or names.
	Addresses []string `json:"addresses"`
	Port      int32    `json:"port"`
	// Protocol is UDP or TCP.
	Protocol string `json:"protocol"`
}
