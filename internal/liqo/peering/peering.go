// Package peering splits Liqo's handshake into messages between two agents.
//
// Liqo peers two clusters through three objects:
//
//   - a nonce of the provider, which the consumer's Liqo signs with its key;
//   - a Tenant, for which the provider's Liqo issues a certificate; its key never leaves the consumer;
//   - an Identity, which holds that certificate at the consumer.
//
// None of them is secret. Liqo's own tool, liqoctl, makes them with the kubeconfigs of both
// clusters. Here each side makes its own objects and sends the other a message ([api.Handshake]).
//
// Callers repeat [Provider.Open] and [Consumer.Open], each time with the newest message of the other
// side, until they report that the peering is open. Each call takes the steps that are possible now
// and returns the next message. Progress is read from the objects, so a crash at any point is harmless.
package peering

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/bourse-dev/bourse/api"
)

// Progress is the state of a peering after a call of Open.
type Progress struct {
	// Open: the peering is complete.
	Open bool
	// ByHand: an admin made the peering. Bourse uses it and never changes it.
	ByHand bool
	// Step names the step that is awaited; empty when the peering is open.
	Step string
	// Say is the message to send, repeatedly, until the other side moves on. Nil: nothing to send.
	Say *api.HandshakeContent
	// Repeat: send the message repeatedly although the peering is open. The other side has not acted on it yet.
	Repeat bool
	// Through: consumers reach the provider's API server through the network between the two
	// clusters, so the network must exist first.
	Through bool
	// Session is the session of the message.
	Session string
}

// Steps, as users see them.
const (
	StepNonce    = "Nonce"    // the consumer waits for the provider's nonce
	StepTenant   = "Tenant"   // the provider waits for the consumer's Tenant, or for its own Liqo to certify it
	StepNetwork  = "Network"  // the consumer waits for the network through which it reaches the provider's API server
	StepIdentity = "Identity" // the consumer waits for its certificate
)

// session derives the name of a handshake from its nonce.
func session(nonce []byte) string {
	sum := sha256.Sum256(nonce)
	return hex.EncodeToString(sum[:])
}

func waiting(step string) Progress { return Progress{Step: step} }

// NetworkIn returns what the other side says of the network, if its message is of this session.
func (p *Progress) NetworkIn(received *api.Handshake) *api.HandshakeNetwork {
	if received == nil || p.Session == "" || received.Session != p.Session {
		return nil
	}
	return received.Network
}

// AddNetwork adds what to say of the network to a message that is sent anyway.
func (p *Progress) AddNetwork(say *api.HandshakeNetwork) {
	if p.Say == nil || say == nil {
		return
	}
	with := *p.Say
	with.Network = say
	p.Say = &with
}

// SendNetwork sends what to say of the network, also where there is nothing else to send. again repeats it.
func (p *Progress) SendNetwork(say *api.HandshakeNetwork, again bool) {
	if p.Say == nil {
		p.Say = &api.HandshakeContent{}
	}
	p.AddNetwork(say)
	p.Repeat = p.Repeat || again
}
