package peers

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A cluster may show another key than the admin named when it is first met. Then its Peer says so,
// and not NotMet.
func TestAPeerThatShowsAnotherKeyAtOnce(t *testing.T) {
	named := market.Member{Cluster: "milan", Trusted: "SHA256:named"}
	refused := card{api.Errorf(api.CodeKeyChanged, "another key"), "SHA256:shown"}
	for name, c := range map[string]struct {
		last    card
		trusted string
		reason  string
	}{
		"no card yet":     {card{}, named.Trusted, "NotMet"},
		"another key":     {refused, named.Trusted, string(api.CodeKeyChanged)},
		"named since":     {refused, refused.fingerprint, "NotMet"},
		"no longer named": {refused, "", "NotMet"},
	} {
		m := named
		m.Trusted = c.trusted
		var s api.PeerStatus
		p := New(Options{})
		p.cards["milan"] = c.last
		p.showKey(&s, "milan", &m, nil, 1)
		if got := s.Conditions[0]; got.Reason != c.reason || got.Status == "True" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A key that succeeded a confirmed one is trusted, and the condition says how to confirm the new one.
func TestARotatedPeer(t *testing.T) {
	milan := transporttest.NewParty(t, "milan")
	m := &market.Member{Cluster: "milan", Key: milan.Key.Public().String(), Trusted: "SHA256:old", Confirmed: true}
	var s api.PeerStatus
	New(Options{}).showKey(&s, "milan", m, nil, 1)
	now := milan.Key.Public().Fingerprint().String()
	if c := s.Conditions[0]; c.Reason != "Rotated" || c.Status != "True" ||
		s.Fingerprint != now || !strings.Contains(c.Message, "bourse trust milan "+now) {
		t.Errorf("%+v", s)
	}
}
