package clusterkey

import (
	"fmt"

	"github.com/bourse-dev/bourse/internal/identity"
)

// KeyChanged says that a cluster showed another key than the one that is pinned: it was reinstalled and
// lost its key, or someone speaks in its name. Nothing goes on until an admin decides.
type KeyChanged struct {
	Cluster           string
	Pinned, Presented identity.Fingerprint
}

func (e *KeyChanged) Error() string {
	return fmt.Sprintf("cluster %s: key changed from %s to %s: ask its admin, by another way than the broker, which one is right",
		e.Cluster, e.Pinned, e.Presented)
}

// CheckPin returns nil if presented is the key pinned for cluster, or if none is pinned yet (zero): then
// this is the first contact, and the caller pins what was presented. Otherwise it returns *[KeyChanged].
func CheckPin(cluster string, pinned, presented identity.Fingerprint) error {
	if pinned.IsZero() || pinned == presented {
		return nil
	}
	return &KeyChanged{Cluster: cluster, Pinned: pinned, Presented: presented}
}
