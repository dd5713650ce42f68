package sharing

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// pinOwn makes the Ledger know this cluster's own key, in which nobody else has a say. Errors: KeyChanged for one that is known
// to have a successor: an old backup of it was put back.
func (a *Advertiser) pinOwn(ctx context.Context) error {
	key := a.Key.Public()
	fingerprint := key.Fingerprint().String()
	if _, err := a.Market.Do(ctx, market.Trust{Cluster: a.Cluster, Fingerprint: fingerprint}); err != nil {
		return err
	}
	_, err := a.Market.Do(ctx, market.Pin{
		Cluster: a.Cluster, Key: key.String(), Fingerprint: fingerprint, Former: trust.Former(a.Cluster, key, a.Rotations),
	})
	return err
}

// signedCard returns the newest card, signed anew when something in it changed. Its number
// comes from the Ledger, so that it grows over restarts.
func (a *Advertiser) signedCard(ctx context.Context) (string, error) {
	a.mu.Lock()
	card := a.card
	a.mu.Unlock()
	if err := a.pinOwn(ctx); err != nil {
		return "", err
	}
	var own *market.Member
	if err := a.Market.Read(ctx, func(s *market.State) { own = s.Member(a.Cluster) }); err != nil {
		return "", err
	}
	if own.Card != nil {
		card.Number = own.Card.Number
		if equality.Semantic.DeepEqual(*own.Card, card) {
			return own.Signed, nil
		}
	}
	card.Number = max(card.Number+1, time.Now().Unix())
	signed, err := a.Key.Sign(api.DocumentCard, card)
	if err != nil {
		return "", err
	}
	_, err = a.Market.Do(ctx, market.PutCard{Card: card, Signed: signed})
	return signed, err
}
