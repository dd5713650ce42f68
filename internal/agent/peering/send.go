package peering

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/trust"
)

// repeatAfter is how long a message waits for an answer before it is sent again: the broker may have lost it.
const repeatAfter = 10 * time.Second

// Send sends what a peering has to say: at once if it is new or answers a new message, and else again after
// a while. role is the peer's, received the message that p answers: a newer one may have come since. An open
// peering only answers, unless p says to repeat.
// Errors: the relay's; those of trust.Key.
func (m *Messenger) Send(ctx context.Context, peer string, role api.PeeringRole, received *api.Handshake,
	p peering.Progress) error {
	if p.Say == nil {
		return nil
	}
	name := api.PeeringName(peer, role)
	digest, err := digestOf(p)
	if err != nil {
		return err
	}
	if m.wasSent(name, role, digest, received, p) {
		return nil
	}
	document, err := m.sign(ctx, peer, role, p)
	if err != nil {
		return err
	}
	if err := m.options.Relay.SendHandshake(ctx, peer, document); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent[name] = sent{digest, m.options.Clock.Now(), received}
	return nil
}

// wasSent reports whether a message need not be sent, because it was sent before. About a network the consumer
// asks. The provider answers each message, and repeats the answer when it heard nothing for a while.
func (m *Messenger) wasSent(name string, role api.PeeringRole, digest string, received *api.Handshake,
	p peering.Progress) bool {
	m.mu.Lock()
	before := m.sent[name]
	m.mu.Unlock()
	recent := m.options.Clock.Since(before.at) < repeatAfter
	asks := (p.Open || p.Through) && role == api.RoleProvider
	switch {
	case before.digest != digest:
		return false
	case asks:
		return !p.Repeat || recent
	}
	return before.answers == received && (p.Open && !p.Repeat || recent)
}

// sign returns the message to a peer, signed.
func (m *Messenger) sign(ctx context.Context, peer string, role api.PeeringRole, p peering.Progress) (string, error) {
	key, err := trust.Key(ctx, m.options.Market, peer)
	if err != nil {
		return "", err
	}
	consumer := m.options.Cluster
	if role == api.RoleConsumer {
		consumer = peer
	}
	return m.options.Key.Sign(api.DocumentHandshake, api.Handshake{
		Protocol: api.Protocol, From: m.options.Cluster, FromKey: m.options.Key.Public().Fingerprint().String(),
		To: peer, ToKey: key.Fingerprint().String(), Consumer: consumer, Session: p.Session,
		Expires:          metav1.NewTime(m.options.Market.Now().Go().Add(messageLasts).UTC().Truncate(time.Second)),
		HandshakeContent: *p.Say,
	})
}

// digestOf identifies a message by its content. Two Tenants of a session are equal, although each is
// signed again.
func digestOf(p peering.Progress) (string, error) {
	kind := ""
	switch c := p.Say; {
	case c.Identity != nil:
		kind = "identity"
	case c.Tenant != nil:
		kind = "tenant"
	case c.Nonce != nil:
		kind = "nonce"
	}
	network, err := json.Marshal(p.Say.Network)
	return p.Session + kind + string(network), err
}
