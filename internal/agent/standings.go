package agent

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/bourse-dev/bourse/api"
)

// standings is what the broker says of the membership of the clusters that this one deals with. Nobody signs it: it is
// shown, and carried out only as far as the SharingPolicy says.
type standings struct {
	events events.EventRecorder
	// came tells of news.
	came func(cluster string)

	mu   sync.Mutex
	said map[string]api.MemberState
}

// hear takes in what the broker says. What it repeats is no news, and what is no state of a member is not looked at.
func (s *standings) hear(said api.Standing) {
	switch said.State {
	case api.MemberPending, api.MemberActive, api.MemberSuspended, api.MemberRevoked, api.MemberRemoved:
	default:
		return
	}
	s.mu.Lock()
	news := s.said[said.Cluster] != said.State
	s.said[said.Cluster] = said.State
	s.mu.Unlock()
	if !news {
		return
	}
	s.came(said.Cluster)
}

// of is what was last said of a cluster: since the agent started, or else as the conditions of its object still show it. Empty if
// nothing was.
func (s *standings) of(cluster string, conditions []metav1.Condition) api.MemberState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.said[cluster]; state != "" {
		return state
	}
	if c := meta.FindStatusCondition(conditions, api.ConditionMember); c != nil {
		return api.MemberState(c.Reason)
	}
	return ""
}

// into puts what was last said of a cluster among the conditions of an object about it. effect is what comes of it if the cluster is no
// member. It returns what tells the news in an Event, once the conditions are written.
func (s *standings) into(conditions *[]metav1.Condition, cluster, effect string, generation int64) (tell func(about runtime.Object)) {
	tell = func(runtime.Object) {}
	state := s.of(cluster, *conditions)
	if state == "" {
		return tell
	}
	c := metav1.Condition{Type: api.ConditionMember, Status: metav1.ConditionTrue, Reason: string(state), ObservedGeneration: generation,
		Message: "the broker says that " + cluster + " is a member"}
	kind := corev1.EventTypeNormal
	if state != api.MemberActive {
		kind, c.Status = corev1.EventTypeWarning, metav1.ConditionFalse
		c.Message = fmt.Sprintf("the broker's operator has %s: nothing new is agreed with it, and %s; this is the broker's word alone", done(cluster, state), effect)
	}
	before := meta.FindStatusCondition(*conditions, c.Type)
	if before == nil && state != api.MemberActive || before != nil && before.Reason != c.Reason {
		tell = func(about runtime.Object) {
			s.events.Eventf(about, nil, kind, "Member"+c.Reason, "Follow", "%.1000s", c.Message) // the API server takes 1024 bytes
		}
	}
	meta.SetStatusCondition(conditions, c)
	return tell
}

// done is what an operator did who put a cluster into a state.
func done(cluster string, state api.MemberState) string {
	switch state {
	case api.MemberSuspended:
		return "suspended " + cluster + " for a while"
	case api.MemberRevoked:
		return "revoked " + cluster + " for good"
	case api.MemberPending:
		return "not approved yet that " + cluster + " joins again"
	default:
		return "removed " + cluster
	}
}

// goesOn is what comes of it by default that a cluster is no member any more.
const goesOn = "existing reservations stay"

// onRevoke is what the policy says to do about a consumer of this standing, in this cluster's terms; not known where there is nothing to
// go by, so that everything stays as it is.
func onRevoke(policy *api.Sharing, state api.MemberState) (action api.RevokeAction, known bool) {
	switch {
	case state == api.MemberActive:
		return api.RevokeNone, true
	case policy == nil:
		return api.RevokeNone, false
	case policy.OnRevoke == "" || policy.OnRevoke == api.RevokeNone:
		return api.RevokeNone, true
	case state == "":
		return api.RevokeNone, false
	case state == api.MemberSuspended:
		return api.RevokeCordon, true
	}
	return policy.OnRevoke, true
}

// effectOf is what comes of an action.
func effectOf(action api.RevokeAction) string {
	switch action {
	case api.RevokeCordon:
		return "Liqo's Tenant is cordoned, as the SharingPolicy says (onRevoke): running pods stay, and no new pods come"
	case api.RevokeDrain:
		return "as the SharingPolicy says (onRevoke) Liqo's Tenant is drained: what it has here ends"
	}
	return goesOn
}
