package enrollment

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// ErrRotated says that the store holds a newer key than the one that the agent works with. The agent starts
// again with the newer key.
var ErrRotated = errors.New("the cluster has a new key")

// Rotate makes the key that succeeds the one of fingerprint from. It stores the key, together with the
// document in which the old key names its successor, in one step. It returns the fingerprint of the stored
// key; a repeated call returns the same.
// Errors: Conflict when from is not, and was not, a key of this cluster, or when another agent changed the
// store.
func (m *Membership) Rotate(ctx context.Context, from string) (to string, err error) {
	err = m.changeStored(ctx, func(id *store.Identity) error {
		old, err := clusterkey.ParsePEM(id.ClusterKeyPEM)
		if err != nil {
			return err
		}
		switch kept := old.Public().Fingerprint().String(); {
		case kept != from && slices.Contains(fingerprints(trust.Former(m.Cluster, old.Public(), id.Rotations)), from):
			to = kept
			return ErrRotated // already: there is nothing to save
		case kept != from:
			return api.Errorf(api.CodeConflict, "this cluster has the key %s, not %.80s", kept, from).
				FixBy("see", "bourse", "agent", "fingerprint")
		}
		next, err := clusterkey.New(rand.Reader)
		if err != nil {
			return err
		}
		document, err := trust.Rotate(old, next.Public(), m.Cluster, m.Clock.Now())
		if err != nil {
			return err
		}
		if id.ClusterKeyPEM, err = next.PEM(); err != nil {
			return err
		}
		id.Rotations = append(id.Rotations, document)
		id.Rotations = id.Rotations[max(0, len(id.Rotations)-api.MaxRotations):]
		to = next.Public().Fingerprint().String()
		return nil
	})
	switch {
	case errors.Is(err, store.ErrConflict):
		return "", api.Errorf(api.CodeConflict, "%s", err).Fix("try again")
	case err != nil && !errors.Is(err, ErrRotated):
		return "", err
	}
	if to != m.key.Public().Fingerprint().String() {
		m.Log.Info("the cluster has a new key: starting again with it", "from", from, "to", to)
		select {
		case m.rotated <- struct{}{}:
		default: // Run knows already
		}
	}
	return to, nil
}

func fingerprints(keys []market.Former) (out []string) {
	for _, f := range keys {
		out = append(out, f.Fingerprint)
	}
	return out
}
