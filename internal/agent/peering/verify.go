package peering

import (
	"context"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/trust"
)

const (
	// messageLasts is how long a message is valid.
	messageLasts = 10 * time.Minute
	// meetWithin bounds a call for a card: the session receives nothing else meanwhile.
	meetWithin = 10 * time.Second
)

// verify returns a message, and what its sender is in the peering, if the sender's pinned key signed it for
// this cluster and it is valid now. Errors: BadSignature; those of trust.Signer.
func (m *Messenger) verify(ctx context.Context, document string) (*api.Handshake, api.PeeringRole, error) {
	from, key, err := trust.Signer(ctx, m.options.Market, document)
	if err != nil {
		return nil, "", err
	}
	var h api.Handshake
	if err := clusterkey.Verify(document, api.DocumentHandshake, key, &h); err != nil {
		return nil, "", err
	}
	own := m.options.Key.Public().Fingerprint().String()
	toUs := h.To == m.options.Cluster && (h.ToKey == own || slices.Contains(m.options.Former, h.ToKey))
	left := h.Expires.Sub(m.options.Market.Now().Go())
	switch {
	case h.From != from || h.FromKey != key.Fingerprint().String() || !toUs:
		return nil, "", api.Errorf(api.CodeBadSignature,
			"the message of %s is for another cluster, or by another key", h.From)
	case left <= 0:
		return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s has expired", h.From)
	case left > messageLasts+join.MaxSkew: // later messages would count as older until then
		return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s expires in %s, too late", h.From,
			left.Round(time.Second))
	case h.Consumer == h.From:
		return &h, api.RoleConsumer, nil
	case h.Consumer == m.options.Cluster:
		return &h, api.RoleProvider, nil
	}
	return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s is of another peering", h.From)
}

// meetSender looks for a new key of a sender whose key is not known: it reads the sender's card from a
// reservation that both clusters have. It reports whether it found a card.
func (m *Messenger) meetSender(ctx context.Context, document string) bool {
	from, err := trust.Sender(document)
	if err != nil || from == m.options.Cluster {
		return false
	}
	if _, _, err := trust.Signer(ctx, m.options.Market, document); err == nil {
		return false // the key is known: the message is wrong in another way
	}
	all, err := m.options.Market.Reservations(ctx)
	shared := ""
	for _, r := range all {
		if r.State.Counts() && (r.Consumer == from || r.Provider == from) {
			shared = r.ID
		}
	}
	if err != nil || shared == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	shown, err := m.options.Relay.Reservation(ctx, shared)
	if err != nil {
		return false
	}
	card := shown.Payload.ProviderCard
	if shown.Payload.Consumer == from {
		card = shown.Payload.ConsumerCard
	}
	m.options.Trust.Greet(ctx, m.options.Market, card, from)
	return true
}
