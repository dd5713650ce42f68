package clusterkey_test

import (
	"errors"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
)

func TestPinHoldsAfterFirstContact(t *testing.T) {
	first, second := newKey(t, 1).Public().Fingerprint(), newKey(t, 2).Public().Fingerprint()
	if err := clusterkey.CheckPin("milan", identity.Fingerprint{}, first); err != nil {
		t.Errorf("first contact: %v", err)
	}
	if err := clusterkey.CheckPin("milan", first, first); err != nil {
		t.Errorf("the same key: %v", err)
	}
	for _, presented := range []identity.Fingerprint{second, {}} {
		err := clusterkey.CheckPin("milan", first, presented)
		changed, ok := errors.AsType[*clusterkey.KeyChanged](err)
		if !ok || *changed != (clusterkey.KeyChanged{Cluster: "milan", Pinned: first, Presented: presented}) {
			t.Errorf("%s after %s: %v", presented, first, err)
		}
	}
}
