package api

// NetworkMode is what the pods of two clusters have between them.
//
// +kubebuilder:validation:Enum=none;wireguard
type NetworkMode string

const (
	// NetworkNone is nothing of Bourse's making: a network that was made by hand stays as it is.
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

// HandshakeNetwork is what one cluster says to another of the network between them: public, like the rest. It comes once
// the peering is open, or before where the provider's API server is reached through it, from the consumer first; each says all of it again when anything of it changes.
type HandshakeNetwork struct {
	// PodCIDRs and ExternalCIDRs are those of the cluster that says so; the other one maps them where they overlap its own.
	PodCIDRs      []string `json:"podCIDRs,omitempty"`
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
	// Reachable says that its gateway can be the one that is dialled, Serves that it is.
	Reachable bool `json:"reachable,omitempty"`
	Serves    bool `json:"serves,omitempty"`
	// Endpoint is where it is dialled, once its Liqo has said so.
	Endpoint *HandshakeEndpoint `json:"endpoint,omitempty"`
	// PublicKey is that of its gateway.
	PublicKey []byte `json:"publicKey,omitempty"`
	// Proxy is, at a provider whose API server is reached through the network, Liqo's proxy to it: one address of ExternalCIDRs.
	Proxy *HandshakeEndpoint `json:"proxy,omitempty"`
	// Over says that the cluster takes no part in it, or no longer; Why says why not.
	Over bool   `json:"over,omitempty"`
	Why  string `json:"why,omitempty"`
}

// HandshakeEndpoint is where a gateway, or a proxy, is dialled.
type HandshakeEndpoint struct {
	// Addresses are IP addresses or names.
	Addresses []string `json:"addresses"`
	Port      int32    `json:"port"`
	// Protocol is UDP or TCP.
	Protocol string `json:"protocol"`
}
