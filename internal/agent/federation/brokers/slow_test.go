package brokers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// busyStore does not answer a number of times.
type busyStore struct {
	store.Store
	mu   sync.Mutex
	busy int
}

func (s *busyStore) Load(ctx context.Context) (store.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.busy--
		return store.Identity{}, errors.New("etcdserver: request timed out")
	}
	return s.Store.Load(ctx)
}

// A broker is joined although the API server did not answer at first.
func TestABrokerWhileTheStoreIsBusy(t *testing.T) {
	r := newRoom(t)
	r.Main.Store = &busyStore{Store: r.Main.Store, busy: 1}
	r.put("north", api.BrokerSpec{Join: newToken(t, servertest.Start(t, servertest.Options{}))})
	r.reconcile("north")
	for end := time.Now().Add(time.Minute); r.Sessions.BrokerNamed("north") == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not joined")
		}
		r.reconcile("north")
	}
	r.await("north", "Joining") // nothing watches it here
}
