package enrollment

import (
	"context"

	"github.com/bourse-dev/bourse/internal/identity/store"
)

// BrokerStore keeps this cluster's identity at another broker, beside that at the main one. Both have the
// one cluster key.
type BrokerStore struct {
	main *Membership
	name string
}

// StoreFor returns the store of this cluster's identity at another broker. m is the membership in the main
// one.
func (m *Membership) StoreFor(broker string) BrokerStore { return BrokerStore{m, broker} }

// Load implements store.Store.
func (s BrokerStore) Load(ctx context.Context) (store.Identity, error) {
	id, err := s.main.Store.Load(ctx)
	if err != nil {
		return id, err
	}
	own := id.Brokers[s.name]
	return store.Identity{TLSKeyPEM: own.TLSKeyPEM, CertPEM: own.CertPEM,
		CAPEM: own.CAPEM, BrokerURL: own.URL, ClusterKeyPEM: id.ClusterKeyPEM, Rotations: id.Rotations}, nil
}

// Save implements store.Store.
func (s BrokerStore) Save(ctx context.Context, id *store.Identity) error {
	return s.main.changeStored(ctx, func(whole *store.Identity) error {
		if whole.Brokers == nil {
			whole.Brokers = map[string]store.AtBroker{}
		}
		whole.Brokers[s.name] = store.AtBroker{TLSKeyPEM: id.TLSKeyPEM,
			CertPEM: id.CertPEM, CAPEM: id.CAPEM, URL: id.BrokerURL}
		return nil
	})
}

// Drop forgets the identity, because the broker was removed.
func (s BrokerStore) Drop(ctx context.Context) error {
	id, err := s.main.Store.Load(ctx)
	if err != nil {
		return err
	}
	if _, has := id.Brokers[s.name]; !has {
		return nil // a write would only conflict with others
	}
	return s.main.changeStored(ctx, func(whole *store.Identity) error {
		delete(whole.Brokers, s.name)
		return nil
	})
}
