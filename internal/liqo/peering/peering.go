// Package peering is Liqo's handshake, taken apart into messages.
//
// Liqo peers two clusters by objects, of which none is secret: a nonce of the provider's, which is signed with the key of the
// consumer's Liqo; a Tenant, by which the provider's Liqo issues a certificate for a key that never leaves the consumer; an
// Identity, which is that certificate. Liqo's own tool makes them with the kubeconfigs of both clusters in one hand.
// Here each side makes its own, and says to the other what it needs ([api.Handshake]).
//
// [Provider.Open] and [Consumer.Open] are called again and again with what the other side last said, until they
// report that the peering is open: each call does what can be done, and returns what to say. They keep nothing:
// where they stand is read from the objects, so a crash at any point is harmless.
package peering

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/bourse-dev/bourse/api"
)

// Progress is how far a peering is.
type Progress struct {
	// Open says that Liqo has what it needs.
	Open bool
	// ByHand says that the peering was made by somebody else: it is used, and never written.
	ByHand bool
	// Step is what is waited for, in a word; empty when it is open.
	Step string
	// Say is what to tell the other side, again and again until it moves on; nil if nothing.
	Say *api.HandshakeContent
	// Repeat says that it is said again and again although the peering is open.
	Repeat bool
	// Through says that the provider's API server is reached through the network between the two clusters: it comes first.
	Through bool
	// Session is that of what is said.
	Session string
}

// Steps, as people see them.
const (
	StepNonce    = "Nonce"    // the consumer waits for the provider's nonce
	StepTenant   = "Tenant"   // the provider waits for the consumer's Tenant, or for its own Liqo to certify it
	StepNetwork  = "Network"  // the consumer waits for the network through which it reaches the provider's API server
	StepIdentity = "Identity" // the consumer waits for its certificate
)

// session names a handshake by its nonce.
func session(nonce []byte) string {
	sum := sha256.Sum256(nonce)
	return hex.EncodeToString(sum[:])
}

func waiting(step string) Progress { return Progress{Step: step} }
