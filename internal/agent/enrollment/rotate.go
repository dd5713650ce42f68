package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// errRotated ends an agent whose store holds a newer key than it works with: it starts again with that one, so that no part of
// it can go on with the old.
var errRotated = errors.New("the cluster has a new key")

// rotate makes the key that succeeds the one of fingerprint from, and keeps it together with the old key's word for it, in one
// step: before it nothing has happened, after it whatever starts has the new key and can show why. It returns the fingerprint
// of the key that is kept then. The answer to a repeat is the same.
// Errors: Conflict when from is not, and was not, a key of this cluster, or when another agent changed the store.
func (m *membership) rotate(ctx context.Context, from string) (to string, err error) {
	err = m.change(ctx, func(id *store.Identity) error {
		old, err := clusterkey.ParsePEM(id.ClusterKeyPEM)
		if err != nil {
			return err
		}
		switch kept := old.Public().Fingerprint().String(); {
		case kept != from && slices.Contains(fingerprints(trust.Former(m.cluster, old.Public(), id.Rotations)), from):
			to = kept
			return errRotated // before: there is nothing to save
		case kept != from:
			return api.Errorf(api.CodeConflict, "this cluster has the key %s, not %.80s", kept, from).Fix("see: bourse agent fingerprint")
		}
		next, err := clusterkey.New(rand.Reader)
		if err != nil {
			return err
		}
		document, err := trust.Rotate(old, next.Public(), m.cluster, time.Now())
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
	case err != nil && !errors.Is(err, errRotated):
		return "", err
	}
	if to != m.key.Public().Fingerprint().String() {
		m.log.Info("the cluster has a new key: starting again with it", "from", from, "to", to)
		select {
		case m.rotated <- struct{}{}:
		default: // it has been told
		}
	}
	return to, nil
}

// untilRotated ends with errRotated once there is a newer key.
func (m *membership) untilRotated(ctx context.Context) error {
	select {
	case <-m.rotated:
		return errRotated
	case <-ctx.Done():
		return nil
	}
}

// former are the fingerprints of the keys that the cluster had.
func (m *membership) former() []string {
	return fingerprints(trust.Former(m.cluster, m.key.Public(), m.rotations))
}

func fingerprints(keys []market.Former) (out []string) {
	for _, f := range keys {
		out = append(out, f.Fingerprint)
	}
	return out
}
