package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Handshake is what one cluster says to another on the way to a peering: Liqo's own handshake, of which no part
// is secret (what is, of a provider on EKS, is sealed), in three messages.
//
//	provider ── Nonce ────▶ consumer    something to sign
//	provider ◀── Tenant ─── consumer    the signed nonce, the public key, a certificate request
//	provider ── Identity ─▶ consumer    the certificate, and where the API server is; the nonce again, for one who lost it
//
// Each is signed by the cluster key of who says it, so that whoever relays it can drop and delay it, but not
// change, swap or invent it; and each names the session, so that none is taken for one of an earlier peering.
// Only the newest of each side counts; saying it again is harmless. Once the peering is open, and where a reservation asks for it,
// the two say in the same way what a network between them needs. Where the provider's API server is reached through that network, its
// Nonce says so, and the network comes before the Tenant.
type Handshake struct {
	Protocol int `json:"protocol"`
	// From and To are cluster IDs, the keys their fingerprints.
	From    string `json:"from"`
	FromKey string `json:"fromKey"`
	To      string `json:"to"`
	ToKey   string `json:"toKey"`
	// Consumer is which of the two borrows: two clusters may peer in both directions.
	Consumer string `json:"consumer"`
	// Session is the SHA-256 of the nonce with which this peering began, in hexadecimal.
	Session string `json:"session"`
	// Expires is when the message is worth nothing any more.
	Expires metav1.Time `json:"expires"`

	HandshakeContent
}

// HandshakeContent is what a handshake message says: a nonce, a tenant, or an identity with its nonce; and a network.
type HandshakeContent struct {
	Nonce    *HandshakeNonce    `json:"nonce,omitempty"`
	Tenant   *HandshakeTenant   `json:"tenant,omitempty"`
	Identity *HandshakeIdentity `json:"identity,omitempty"`
	// Network is of an open peering, where reservations ask for one; alone, or beside the others.
	Network *HandshakeNetwork `json:"network,omitempty"`
}

// HandshakeNonce is what the provider wants signed.
type HandshakeNonce struct {
	// Nonce is the value of Liqo's Secret of that name.
	Nonce []byte `json:"nonce"`
	// APIServerAccess is how the consumer is to reach the provider's API server; empty: directly.
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
}

// HandshakeTenant is what the consumer asks the provider to make a Tenant of.
type HandshakeTenant struct {
	// PublicKey (PEM) is that of the consumer's Liqo, CSR (PEM) a certificate request by it, Signature the
	// signed nonce.
	PublicKey []byte `json:"publicKey"`
	CSR       []byte `json:"csr"`
	Signature []byte `json:"signature"`
	// Challenge is new with each opening of the consumer's: only an Identity that repeats it is an answer.
	Challenge string `json:"challenge" maxLength:"64"`
	// ProxyURL is how the consumer reaches the provider's API server inside the tunnel; empty: directly.
	ProxyURL string `json:"proxyURL,omitempty"`
	// SealTo is a public key of this opening (HPKE, ML-KEM-768 with X25519), to which the provider seals what is secret.
	SealTo []byte `json:"sealTo,omitempty"`
}

// HandshakeIdentity is what the consumer makes its Identity of.
type HandshakeIdentity struct {
	// Challenge is that of the Tenant that this answers.
	Challenge string `json:"challenge"`
	// Namespace is the consumer's tenant namespace on the provider.
	Namespace string `json:"namespace"`
	// CA and Certificate are PEM; APIServer is a URL.
	CA          []byte `json:"ca"`
	Certificate []byte `json:"certificate"`
	APIServer   string `json:"apiServer"`
	ProxyURL    string `json:"proxyURL,omitempty"`
	// Sealed is, of a provider on EKS, Liqo's AwsConfig, sealed to the Tenant's SealTo.
	Sealed []byte `json:"sealed,omitempty"`
}
