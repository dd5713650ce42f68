package agent

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A cluster whose key an admin named, and that shows another one when it is first met, is not one that was never met.
func TestAPeerThatShowsAnotherKeyAtOnce(t *testing.T) {
	named := market.Member{Cluster: "milan", Trusted: "SHA256:named"}
	refused := wrong{api.Errorf(api.CodeKeyChanged, "another key"), "SHA256:shown"}
	for name, c := range map[string]struct {
		last    wrong
		trusted string
		reason  string
	}{
		"no card yet":             {wrong{}, named.Trusted, "NotMet"},
		"another key":             {refused, named.Trusted, string(api.CodeKeyChanged)},
		"named since":             {refused, refused.shown, "NotMet"},
		"the word was taken back": {refused, "", "NotMet"},
	} {
		m := named
		m.Trusted = c.trusted
		var s api.PeerStatus
		(&peers{wrong: map[string]wrong{"milan": c.last}}).describe(&s, "milan", &m, nil, 1)
		if got := s.Conditions[0]; got.Reason != c.reason || got.Status == "True" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
