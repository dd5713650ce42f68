package agent_test

import (
	"fmt"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim"
	federations "github.com/bourse-dev/bourse/internal/sim/federation"
)

// What an operator says of a member is shown on the Peers of those that it deals with, and told in
// an Event; what is bound goes on, and ends when its consumer says so.
func TestAPeerIsNoMember(t *testing.T) {
	rome := &federations.Member{Options: sim.Options{Name: "rome", Nodes: 1}}
	milan := &federations.Member{Options: sim.Options{Name: "milan", Nodes: 1},
		Connector: true, Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	f, err := federations.Start(t.Context(), t.TempDir(), logger(), rome, milan)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	}()
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"},
		Spec: api.ResourceRequestSpec{
			Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}},
		}}
	eventually(t, "rome sees milan", func() bool {
		c, err := rome.People.Cluster(t.Context(), "milan")
		return err == nil && len(c.Payload.Pools) > 0
	})
	if err := rome.Objects.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	state := func() api.State {
		_ = rome.Objects.Get(t.Context(), kube.ObjectKeyFromObject(request), request)
		return request.Status.State
	}
	eventually(t, "the request is Reserved", func() bool { return state() == api.Reserved })
	shows := func(at *federations.Member, peer string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s shows that %s is %s", at.Name, peer, reason), func() bool {
			var p api.Peer
			err := at.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: peer}, &p)
			c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionMember)
			return err == nil && c != nil && c.Status == status && c.Reason == reason
		})
	}
	shows(milan, "rome", metav1.ConditionTrue, "Active")
	shows(rome, "milan", metav1.ConditionTrue, "Active")
	for _, step := range []string{"suspend", "resume", "revoke"} {
		if _, err := f.Operator.SetMember(t.Context(), "rome", step); err != nil {
			t.Fatal(err)
		}
		switch step {
		case "suspend":
			shows(milan, "rome", metav1.ConditionFalse, "Suspended")
		case "resume":
			shows(milan, "rome", metav1.ConditionTrue, "Active")
		case "revoke":
			shows(milan, "rome", metav1.ConditionFalse, "Revoked")
		}
	}
	shows(rome, "milan", metav1.ConditionTrue, "Active")
	eventually(t, "an Event says each", func() bool {
		var list eventsv1.EventList
		if err := milan.Objects.List(t.Context(), &list, kube.InNamespace(api.Namespace)); err != nil {
			return false
		}
		told := map[string]string{}
		for _, e := range list.Items {
			if e.Regarding.Kind == "Peer" && e.Regarding.Name == "rome" {
				told[e.Reason] = e.Type
			}
		}
		return len(told) == 3 && told["MemberSuspended"] == "Warning" &&
			told["MemberActive"] == "Normal" && told["MemberRevoked"] == "Warning"
	})
	eventually(t, "what was bound is so still, on both sides", func() bool {
		var bound api.ProviderInstruction
		err := milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace,
			Name: request.Status.Reservation}, &bound)
		return err == nil && bound.Status.State == api.Reserved && state() == api.Reserved
	})
	// The broker takes nothing of rome any more: it goes to milan's connector, where each known
	// cluster is a member.
	if err := rome.Objects.Delete(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "milan is free of it", func() bool {
		var bound api.ProviderInstruction
		err := milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace,
			Name: request.Status.Reservation}, &bound)
		return apierrors.IsNotFound(err)
	})
	shows(milan, "rome", metav1.ConditionFalse, "Revoked")
}
