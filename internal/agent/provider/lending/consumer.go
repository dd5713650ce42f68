package lending

import (
	"context"
	"sync"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// ConsumerOf returns a function that names the consumer to whose account the pods of a slice's user
// belong, by the reservations in the Ledger. It returns an empty name for a user without an
// account. Several goroutines may call it.
func ConsumerOf(m *exchange.Exchange) func(user string) string {
	var mu sync.Mutex
	var consumers map[string]string // by user, at revision
	var revision uint64
	return func(user string) string {
		mu.Lock()
		defer mu.Unlock()
		if now := m.View().Revision; consumers == nil || now != revision {
			if lent, err := m.Lent(context.Background()); err == nil { // otherwise the last known accounts count
				consumers, revision = map[string]string{}, now
				for _, r := range lent {
					consumers[grant.User(r.Slice(), r.Consumer)] = r.Consumer
				}
			}
		}
		return consumers[user]
	}
}
