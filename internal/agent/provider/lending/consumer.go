package lending

import (
	"context"
	"sync"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
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
			found := map[string]string{}
			err := m.Read(context.Background(), func(s *market.State) {
				for _, r := range s.Of(s.Self, 0) {
					if r.Provider == s.Self {
						found[grant.User(r.Slice(), r.Consumer)] = r.Consumer
					}
				}
			})
			if err == nil { // otherwise the last known accounts count
				consumers, revision = found, now
			}
		}
		return consumers[user]
	}
}
