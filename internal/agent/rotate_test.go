package agent

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What people see of a key that succeeded a confirmed one: it is believed, and they are told what to say now.
func TestARotatedPeer(t *testing.T) {
	milan := transporttest.NewParty(t, "milan")
	m := &market.Member{Cluster: "milan", Key: milan.Key.Public().String(), Trusted: "SHA256:old", Confirmed: true}
	var s api.PeerStatus
	(&peers{wrong: map[string]wrong{}}).describe(&s, "milan", m, nil, 1)
	now := milan.Key.Public().Fingerprint().String()
	if c := s.Conditions[0]; c.Reason != "Rotated" || c.Status != "True" || s.Fingerprint != now || !strings.Contains(c.Message, "bourse trust milan "+now) {
		t.Errorf("%+v", s)
	}
}
