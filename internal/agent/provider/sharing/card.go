package sharing

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// CardOptions say what this cluster's card shows beside what is measured and what the SharingPolicy says.
type CardOptions struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Rotations are the documents that lead from this cluster's former keys to Key.
	Rotations []string
	// Endorsement is the document in which a root endorses Key. Empty: there is none.
	Endorsement string
	// Connector is the URL at which others reach this cluster's connector. Empty: it has none.
	Connector string
	// Liqo adds to the card which Liqo the cluster has, how peers reach it, and which networks they may have.
	// Nil: the cluster has no Liqo.
	Liqo func(*api.Properties, *api.Sharing)
}

// newCard returns the unsigned card of a cluster with these properties. sharing is nil without a
// SharingPolicy.
func (o *CardOptions) newCard(properties api.Properties, sharing *api.Sharing) api.Card {
	card := api.Card{
		Cluster: o.Cluster, Key: o.Key.Public().String(), Properties: properties,
		Endorsement: o.Endorsement, Rotations: o.Rotations,
	}
	if sharing != nil {
		card = showPolicy(card, sharing)
	}
	if sharing.Hub() != nil { // those of the hub's own nodes say nothing about its providers
		card.Properties.Aggregator, card.Properties.StorageClasses, card.Properties.Kubernetes = true, nil, ""
	}
	card.Properties.Connector = o.Connector
	if o.Liqo != nil {
		o.Liqo(&card.Properties, sharing)
	}
	return card
}

// showPolicy returns a card with what a SharingPolicy says on it.
func showPolicy(card api.Card, s *api.Sharing) api.Card {
	card.Properties.Labels, card.ApproveWithin = s.Labels, s.ApproveWithin
	if card.MaxNamespaces = api.DefaultNamespaces; s.Namespaces != nil && s.Namespaces.Max > 0 {
		card.MaxNamespaces = s.Namespaces.Max
	}
	return card
}

// signCard returns the signed card. It signs again only when something in the card has changed. The card's
// number comes from the Ledger, so that it grows over restarts. Errors: those of pinOwnKey and of the Ledger.
func (a *Advertiser) signCard(ctx context.Context) (string, error) {
	a.mu.Lock()
	card := a.card
	a.mu.Unlock()
	if err := a.pinOwnKey(ctx); err != nil {
		return "", err
	}
	own, err := a.options.Market.Member(ctx, card.Cluster)
	if err != nil {
		return "", err
	}
	if own.Card != nil {
		card.Number = own.Card.Number
		if equality.Semantic.DeepEqual(*own.Card, card) {
			return own.Signed, nil
		}
	}
	card.Number = max(card.Number+1, a.options.Clock.Now().Unix())
	signed, err := a.options.Card.Key.Sign(api.DocumentCard, card)
	if err != nil {
		return "", err
	}
	_, err = a.options.Market.Do(ctx, market.PutCard{Card: card, Signed: signed})
	return signed, err
}

// pinOwnKey pins and confirms this cluster's own key in the Ledger. Errors: KeyChanged for a key that has a
// known successor, because an old backup of it was restored.
func (a *Advertiser) pinOwnKey(ctx context.Context) error {
	cluster, key := a.options.Card.Cluster, a.options.Card.Key.Public()
	fingerprint := key.Fingerprint().String()
	if _, err := a.options.Market.Do(ctx, market.Trust{Cluster: cluster, Fingerprint: fingerprint}); err != nil {
		return err
	}
	_, err := a.options.Market.Do(ctx, market.Pin{
		Cluster: cluster, Key: key.String(), Fingerprint: fingerprint, Former: trust.Former(cluster,
			key, a.options.Card.Rotations),
	})
	return err
}
