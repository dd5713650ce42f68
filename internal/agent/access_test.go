package agent

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// A SharingPolicy that promises access through a network must have one.
func TestAnAPIServerBehindNoNetwork(t *testing.T) {
	for network, valid := range map[api.NetworkMode]bool{"": false, api.NetworkNone: false, api.NetworkWireGuard: true} {
		err := (&policy{}).check(&api.Sharing{Network: network, APIServerAccess: api.APIServerNetwork})
		if (err == nil) != valid || err != nil && api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("network %q: %v", network, err)
		}
	}
}
