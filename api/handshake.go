package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Handshake is a message from one cluster to another on the way to a peering. It is Liqo's own
// handshake, in three messages. No part of it is secret; the secret of a provider on EKS is sealed.
//
//	provider ── Nonce ────▶ consumer    something to sign
//	provider ◀── Tenant ─── consumer    the signed nonce, the public key, a certificate request
//	provider ── Identity ─▶ consumer    the certificate and the API server's address; the nonce
//	                                    again, if it was lost
//
// The sender's cluster key signs each message. So a relay can drop and delay messages, but it
// cannot change, swap or invent them. Each message names the session, so that none is mistaken for
// one of an earlier peering. Only the newest message of each side counts; repeating it is harmless.
// Once the peering is open, and if a reservation asks for it, the two exchange in the same way what
// a network between them needs. If consumers reach the provider's API server through that network,
// the Nonce says so, and the network comes before the Tenant.
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
	// Expires is when the message becomes void.
	Expires metav1.Time `json:"expires"`

	HandshakeContent
}

// HandshakeContent is the content of a handshake message: a nonce, a tenant, or an identity with
// its nonce, and a network.
type HandshakeContent struct {
	Nonce    *HandshakeNonce    `json:"nonce,omitempty"`
	Tenant   *HandshakeTenant   `json:"tenant,omitempty"`
	Identity *HandshakeIdentity `json:"identity,omitempty"`
	// Network belongs to an open peering whose reservations ask for a network. It comes alone or
	// with the others.
	Network *HandshakeNetwork `json:"network,omitempty"`
}

// HandshakeNonce is what the consumer must sign.
type HandshakeNonce struct {
	// Nonce is the value of Liqo's Secret of that name.
	Nonce []byte `json:"nonce"`
	// APIServerAccess says how the consumer reaches the provider's API server. Empty: directly.
	APIServerAccess APIServerAccess `json:"apiServerAccess,omitempty"`
}

// HandshakeTenant is what the provider makes a Tenant from.
type HandshakeTenant struct {
	// PublicKey (PEM) is that of the consumer's Liqo, CSR (PEM) a certificate request for it,
	// Signature the signed nonce.
	PublicKey []byte `json:"publicKey"`
	CSR       []byte `json:"csr"`
	Signature []byte `json:"signature"`
	// Challenge is new whenever the consumer opens the peering. Only an Identity that repeats it is
	// an answer.
	Challenge string `json:"challenge" maxLength:"64"`
	// ProxyURL is the address of the provider's API server inside the tunnel. Empty: it is reached directly.
	ProxyURL string `json:"proxyURL,omitempty"`
	// SealTo is a public key for this opening (HPKE, ML-KEM-768 with X25519). The provider seals
	// its secrets to it.
	SealTo []byte `json:"sealTo,omitempty"`
}

// HandshakeIdentity is what the consumer makes its Identity from.
type HandshakeIdentity struct {
	// Challenge repeats that of the Tenant.
	Challenge string `json:"challenge"`
	// Namespace is the consumer's tenant namespace on the provider.
	Namespace string `json:"namespace"`
	// CA and Certificate are PEM; APIServer is a URL.
	CA          []byte `json:"ca"`
	Certificate []byte `json:"certificate"`
	APIServer   string `json:"apiServer"`
	ProxyURL    string `json:"proxyURL,omitempty"`
	// Sealed is Liqo's AwsConfig of a provider on EKS, sealed to the Tenant's SealTo.
	Sealed []byte `json:"sealed,omitempty"`
}
