package lending

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// Without a policy or a state nothing changes. A suspended consumer is cordoned at most. An active one gets
// everything back.
func TestOnRevoke(t *testing.T) {
	for _, c := range []struct {
		policy string // "no": there is none
		state  api.MemberState
		want   string // empty: everything stays as it is
	}{
		{"no", api.MemberActive, "none"}, {"no", api.MemberRevoked, ""}, {"no", "", ""},
		{"", api.MemberRevoked, "none"}, {"none", api.MemberRemoved, "none"}, {"none", "", "none"},
		{"cordon", "", ""}, {"cordon", api.MemberActive, "none"}, {"cordon",
			api.MemberSuspended, "cordon"}, {"cordon", api.MemberRevoked, "cordon"},
		{"drain", "", ""}, {"drain", api.MemberActive, "none"}, {"drain",
			api.MemberSuspended, "cordon"}, {"drain", api.MemberRevoked, "drain"},
		{"drain", api.MemberRemoved, "drain"}, {"drain", api.MemberPending, "drain"},
	} {
		var policy *api.Sharing
		if c.policy != "no" {
			policy = &api.Sharing{OnRevoke: api.RevokeAction(c.policy)}
		}
		if got := string(onRevoke(policy, c.state)); got != c.want {
			t.Errorf("policy %q, %q: %q, want %q", c.policy, c.state, got, c.want)
		}
	}
}
