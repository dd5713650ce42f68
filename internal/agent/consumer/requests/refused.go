package requests

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// FindRefused returns why this cluster would pass over providers that it uses already for a request, by provider.
// Errors: those of the API server.
func (r *Controller) FindRefused(ctx context.Context, o *api.ResourceRequest) (map[string]error, error) {
	used := map[string]*api.Card{}
	relending, err := r.listRelending(ctx)
	if err != nil {
		return nil, err
	}
	for _, provider := range relending {
		used[provider] = &api.Card{Cluster: provider}
	}
	if err := r.Market.Read(ctx, func(s *market.State) {
		for _, record := range s.Of(s.Self, 0) {
			if record.Consumer == s.Self && record.Bound() {
				used[record.Provider] = &api.Card{Cluster: record.Provider}
			}
		}
		for cluster, card := range used {
			if m := s.Member(cluster); m != nil {
				card.MaxNamespaces = m.MaxNamespaces
			}
		}
	}); err != nil {
		return nil, err
	}
	refused, check := map[string]error{}, r.makeWish(o).Check
	for cluster, card := range used {
		why, err := splitRefusal(check(ctx, card))
		if err != nil {
			return nil, err
		}
		if why != nil {
			refused[cluster] = why
		}
	}
	return refused, nil
}

// FindPassedOver is [Controller.FindRefused] for each new request of this cluster.
func (r *Controller) FindPassedOver(ctx context.Context) (map[string]error, error) {
	return r.FindRefused(ctx, &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault}})
}

// CheckCard returns why this cluster would pass over a provider that shows a card for a request, nil if it would
// not. It pins no key. Errors: BadSignature for a card that is not valid; those of the API server.
func (r *Controller) CheckCard(ctx context.Context, o *api.ResourceRequest, provider, signed string) (refused,
	err error) {
	card, err := r.Borrower.Trust.Check(ctx, r.Market, signed, provider)
	if err == nil {
		err = r.Borrower.checkCard(ctx, card, r.makeWish(o))
	}
	return splitRefusal(err)
}

// splitRefusal returns an error for which a provider is passed over apart from all others.
func splitRefusal(cause error) (refused, err error) {
	if _, ok := refusals[api.CodeOf(cause)]; ok {
		return cause, nil
	}
	return nil, cause
}
