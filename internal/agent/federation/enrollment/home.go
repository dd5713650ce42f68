package enrollment

import (
	"context"
	"errors"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/store"
)

// lookAtHome is how often a clone looks whether an admin made it the only one.
const lookAtHome = 5 * time.Second

// checkHome compares the cluster that an identity was made in with this one, and records this one where nothing is
// recorded. Two clusters with one identity, as after a restore of a backup elsewhere, would answer for each other's
// reservations. The admission says whether this one is a clone. Errors: those of the store.
func (o *Options) checkHome(ctx context.Context, id *store.Identity) (Admission, error) {
	switch {
	case o.Home == "" || id.Home == o.Home:
		return Admission{}, nil
	case id.Home != "":
		namespace := "bourse"
		if o.Secret != nil {
			namespace = o.Secret.Namespace
		}
		return Admission{Reason: api.ReasonClonedIdentity, URL: id.BrokerURL,
			Err: api.Errorf(api.CodeConflict, "the Secret bourse-identity came from another cluster, where namespace "+
				"kube-system has the UID %s; here it has %s", id.Home, o.Home).
				Fix("if this cluster replaces that one for good, stop the agent there, and then: kubectl -n %s"+
					" patch secret bourse-identity --type=json -p '[{\"op\":\"remove\",\"path\":\"/data/kube-system-uid\"}]'; "+
					"if not, delete the Secret and the Ledger here, and join as another cluster", namespace)}, nil
	}
	id.Home = o.Home
	if len(id.ClusterKeyPEM) == 0 {
		return Admission{}, nil // it is stored with the first key
	}
	return Admission{}, o.Store.Save(ctx, id)
}

// IsCloned reports whether the cluster's identity is another cluster's. Then the agent connects to nobody.
func (m *Membership) IsCloned() bool { return m.Admission().Reason == api.ReasonClonedIdentity }

// awaitHome waits until the stored identity is no other cluster's any more. Errors: ErrJoined then.
func (m *Membership) awaitHome(ctx context.Context) error {
	for {
		select {
		case <-m.Clock.After(lookAtHome):
		case <-ctx.Done():
			return nil
		}
		id, err := m.Store.Load(ctx)
		if errors.Is(err, store.ErrNotFound) || err == nil && (id.Home == "" || id.Home == m.Home) {
			return ErrJoined
		}
	}
}
