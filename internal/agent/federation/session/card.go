package session

import (
	"context"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/transport"
)

// ShowCard shows this cluster's card to a broker or connector, which deals with no cluster whose card it
// has not. It reads the card from the Ledger. Errors: Unavailable before the cluster has a card.
func ShowCard(ctx context.Context, ledger *exchange.Exchange, cluster string, to transport.Broker) error {
	own, err := ledger.Member(ctx, cluster)
	if err != nil {
		return err
	}
	if own == nil || own.Signed == "" {
		return api.Errorf(api.CodeUnavailable, "this cluster has no card yet")
	}
	if err := to.PutCard(ctx, own.Signed); err != nil && api.CodeOf(err) != api.CodeConflict {
		return err
	}
	return nil
}
