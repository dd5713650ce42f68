package peers

import (
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// A state that the broker repeats is not new, and a state that no member can have is ignored.
func TestRecordState(t *testing.T) {
	var changed []string
	p := New(Options{Trigger: &kubeobject.Trigger{}, StateChanged: func(cluster string, role api.PeeringRole) {
		if role == api.RoleConsumer {
			changed = append(changed, cluster)
		}
	}})
	for _, s := range []api.Membership{
		{Cluster: "rome", State: api.MemberActive}, {Cluster: "rome",
			State: api.MemberActive}, {Cluster: "milan", State: api.MemberRevoked},
		{Cluster: "rome", State: "spaces are no reason"}, {Cluster: "rome"}, {Cluster: "rome", State: api.MemberSuspended},
	} {
		p.RecordState(s)
	}
	if want := []string{"rome", "milan", "rome"}; !slices.Equal(changed, want) {
		t.Errorf("changed are %v, want %v", changed, want)
	}
}
