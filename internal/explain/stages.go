package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Progress is how far a stage is.
type Progress string

// A stage is done, or it is the one that the request waits at, or the one at which it failed. Those that follow are not
// reached.
const (
	Done       Progress = "done"
	Current    Progress = "current"
	Failed     Progress = "failed"
	NotReached Progress = "not reached"
)

// Stage is a step in the life of a request.
type Stage struct {
	Name     string    `json:"name"`
	Progress Progress  `json:"progress"`
	At       time.Time `json:"at,omitzero"`    // when it was done or failed; zero: unknown
	Text     string    `json:"text,omitempty"` // what it waits for, why it failed, or what was done: one sentence
}

// Asked is what a user can read of a request. Each field but Request may be absent: less is known then.
type Asked struct {
	Request api.RequestStatus
	// Instructions are those of its reservation, of all parts if it is split.
	Instructions []api.ReservationInstruction
	Reservation  *api.Reservation // as the agent shows it
	Peerings     []api.Peering
	Events       []Event // of the ResourceRequest
}

// Event is an Event of Kubernetes about a request. The agent's have the state of the reservation as the reason.
type Event struct {
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Text    string    `json:"text"`
	Warning bool      `json:"warning,omitempty"`
}

// Events returns the Events of a request, the oldest first.
func Events(all []corev1.Event) (out []Event) {
	for _, e := range all {
		at := e.EventTime.Time
		for _, other := range []time.Time{e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
			if at.IsZero() {
				at = other
			}
		}
		out = append(out, Event{at, e.Reason, e.Message, e.Type == corev1.EventTypeWarning})
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}

// Stages returns the stages of a request: Asked, Held, Accepted, Bound, Peered, Node Ready, Pods, and Ended for one
// that ends.
func Stages(a Asked, now time.Time) []Stage {
	asked := Stage{"Asked", Done, a.Request.Created.Time, a.asks()}
	all := []Stage{asked, a.held(now), a.accepted(), a.bound(), a.peered(), a.node(), a.pods()}
	ended, stopped := a.ended(), false
	for i := range all {
		s := &all[i]
		before := stopped
		stopped = stopped || s.Progress != Done
		if before || stopped && ended != nil {
			*s = Stage{Name: s.Name, Progress: NotReached}
		}
	}
	if ended != nil {
		all = append(all, *ended)
	}
	return all
}

// StageAt returns the stage at which a request waits or failed; the last one if all are done.
func StageAt(stages []Stage) Stage {
	i := slices.IndexFunc(stages, func(s Stage) bool { return s.Progress == Current || s.Progress == Failed })
	if i < 0 {
		i = len(stages) - 1
	}
	return stages[i]
}

// asks says what a request asks for.
func (a Asked) asks() string {
	if p := a.Request.Request.Purchase; p != nil {
		return fmt.Sprintf("buys %d of %s/%s/%s", max(p.Units, 1), p.Seller, p.Offer, p.Plan)
	}
	return "asks for " + Sizes(a.Request.Request.Resources)
}

// message is what the agent shows about the request, without the command that explains more.
func (a Asked) message() string {
	text, _, _ := strings.Cut(a.Request.Status.Message, "; see: bourse why")
	return api.WithoutCode(text)
}

func (a Asked) held(now time.Time) Stage {
	s := Stage{Name: "Held", Progress: Current, Text: a.message()}
	switch state := a.Request.Status.State; {
	case state == api.Pending:
		if a.Reservation != nil {
			s.Text = cmp.Or(Waiting(*a.Reservation, now), s.Text)
		}
	case state == api.Rejected:
		s.Progress, s.At = Failed, a.changed(api.ConditionReserved)
	case state == "" && asksAgain(a.Request.Status):
		s.Text = cmp.Or(s.Text, "the agent has not answered it yet")
	case state == "":
		s.Progress, s.At = Failed, a.changed(api.ConditionReserved)
	default:
		s.Progress, s.At, s.Text = Done, a.event(api.Held), ""
		if a.Request.Status.Began != nil {
			s.At = a.Request.Status.Began.Time
		}
		if a.Reservation != nil && !a.Reservation.Created.IsZero() {
			s.At = a.Reservation.Created.Time
		}
		if on := a.provider(); on != "" {
			s.Text = "held on " + on
		}
	}
	return s
}

// asksAgain reports whether the agent of a request without a state asks again, without an edit of the request.
func asksAgain(s api.ResourceRequestStatus) bool {
	if !s.Refused() || s.Reservation != "" {
		return true
	}
	c := meta.FindStatusCondition(s.Conditions, api.ConditionReserved)
	return c != nil && (c.Reason == string(api.CodeUnavailable) || c.Reason == string(api.CodeTooManyRequests))
}

func (a Asked) accepted() Stage {
	s := Stage{Name: "Accepted", Progress: Current, Text: a.message()}
	switch state := a.Request.Status.State; {
	case a.isAccepted():
		s.Progress, s.Text = Done, ""
		for _, i := range a.Instructions {
			s.At = latest(s.At, i.CreationTimestamp.Time)
		}
	case state == api.Failed || state == api.Expired:
		s.Progress, s.At = Failed, cmp.Or(a.changed(api.ConditionReserved), a.event(state))
		if a.Reservation != nil && a.Reservation.Reason != "" {
			s.Text = Reason(string(a.Reservation.Reason), a.Reservation.Message)
		}
	}
	return s
}

// isAccepted reports whether the provider accepted.
func (a Asked) isAccepted() bool {
	return a.isBound() || len(a.Instructions) > 0 || a.Reservation != nil && a.Reservation.Acceptance != ""
}

// isBound reports whether both sides are or were bound.
func (a Asked) isBound() bool {
	s := a.Request.Status
	if r := a.Reservation; r != nil {
		switch r.Reason {
		case api.ReasonEnded, api.ReasonRevokedByProvider, api.ReasonReclaimed:
			return true
		}
	}
	return s.State == api.Reserved || s.State == api.Active || s.Began != nil ||
		s.State == api.Releasing && len(a.Instructions) > 0 || !a.event(api.Reserved).IsZero()
}

func (a Asked) bound() Stage {
	s := Stage{Name: "Bound", Progress: Current, Text: "the provider accepted; the broker tells both clusters"}
	if a.isBound() {
		s.Progress, s.Text, s.At = Done, "", a.event(api.Reserved)
		if meta.IsStatusConditionTrue(a.Request.Status.Conditions, api.ConditionReserved) {
			s.At = a.changed(api.ConditionReserved)
		}
		if until := a.Request.Status.Until; until != nil {
			s.Text = "until " + Time(until)
		}
	}
	return s
}

func (a Asked) peered() Stage {
	s, c := a.step("Peered", api.ConditionPeered)
	if s.Progress == Done {
		return s
	}
	if s.Text = "waits for Liqo's peering with " + cmp.Or(a.provider(), "the provider"); c != nil && c.Message != "" {
		s.Text = api.WithoutCode(c.Message)
	}
	for _, p := range a.Peerings {
		if p.Spec.Role == api.RoleProvider && p.Spec.Cluster == a.provider() && p.Status.Step != "" {
			s.Text = "the peering with " + p.Spec.Cluster + " waits for: " + Reason(p.Status.Step, p.Status.Message)
		}
	}
	return s
}

func (a Asked) node() Stage {
	if c := a.condition(api.ConditionSuspended, metav1.ConditionTrue); c != nil {
		return Stage{"Node Ready", Failed, c.LastTransitionTime.Time,
			a.provider() + " gives nothing more: " + api.WithoutCode(c.Message)}
	}
	s, c := a.step("Node Ready", api.ConditionNodeReady)
	if granted := a.condition(api.ConditionGranted, metav1.ConditionFalse); granted != nil {
		s.Progress, s.At, c = Current, time.Time{}, granted
	}
	if s.Progress == Done {
		return s
	}
	if s.Text = "waits for the virtual node"; c != nil {
		s.Text = cmp.Or(api.WithoutCode(c.Message), c.Reason)
		if a.Request.Status.State == api.Active && c.Type == api.ConditionNodeReady { // it was Ready before
			s.Progress, s.At = Failed, c.LastTransitionTime.Time
		}
	}
	return s
}

func (a Asked) pods() Stage {
	s := Stage{Name: "Pods", Progress: Done}
	for _, of := range []string{api.ConditionOffloaded, api.ConditionPodsComply} {
		if c := a.condition(of, metav1.ConditionFalse); c != nil {
			s.Progress, s.At, s.Text = Failed, c.LastTransitionTime.Time, Reason(c.Reason, c.Message)
			return s
		}
	}
	offload := a.Request.Offload
	if offload == nil {
		s.Text = "the virtual node is ready for every NamespaceOffloading that selects it"
		return s
	}
	of := strings.Join(offload.Namespaces, ", ")
	c := a.condition(api.ConditionOffloaded, metav1.ConditionTrue)
	if c == nil {
		s.Progress, s.Text = Current, "waits until its namespaces are offloaded: "+of
		return s
	}
	s.At, s.Text = c.LastTransitionTime.Time, "pods of "+of+" may run there"
	return s
}

// ended is the last stage of a reservation that ends or has ended after it was held; nil for another one.
func (a Asked) ended() *Stage {
	s := Stage{Name: "Ended", Text: a.message()}
	switch a.Request.Status.State {
	case api.Releasing:
		s.Progress = Current
	case api.Released:
		s.Progress, s.At = Done, cmp.Or(a.event(api.Released), a.changed(api.ConditionReady))
	default:
		return nil
	}
	if r := a.Reservation; r != nil && r.Reason.EndedByOthers() {
		s.Progress = Failed
	}
	return &s
}

// step returns a stage that a condition of the instructions shows, with the first condition that does not hold. A
// reservation that is Active has passed those of which nothing is known.
func (a Asked) step(name, of string) (Stage, *metav1.Condition) {
	s := Stage{Name: name, Progress: Current}
	if c := a.condition(of, metav1.ConditionFalse); c != nil {
		return s, c
	}
	lists := a.conditions()
	known := 0
	for _, list := range lists {
		if c := meta.FindStatusCondition(list, of); c != nil {
			known++
			s.At = latest(s.At, c.LastTransitionTime.Time)
		}
	}
	active := a.event(api.Active)
	switch {
	case known > 0 && known == len(lists):
		s.Progress = Done
	case known == 0 && (a.Request.Status.State == api.Active || !active.IsZero()):
		s.Progress, s.At = Done, active
	default:
		s.At = time.Time{}
	}
	return s, nil
}

// conditions returns those of each instruction.
func (a Asked) conditions() (lists [][]metav1.Condition) {
	for _, i := range a.Instructions {
		lists = append(lists, i.Status.Conditions)
	}
	if len(lists) == 0 && len(a.Request.Steps) > 0 {
		lists = append(lists, a.Request.Steps)
	}
	return lists
}

// condition returns the first condition of a type and status among those of the instructions.
func (a Asked) condition(of string, status metav1.ConditionStatus) *metav1.Condition {
	for _, list := range a.conditions() {
		if c := meta.FindStatusCondition(list, of); c != nil && c.Status == status {
			return c
		}
	}
	return nil
}

// provider names the provider, or those of all parts.
func (a Asked) provider() string {
	var names []string
	for _, p := range a.Request.Status.Parts {
		names = append(names, p.Provider)
	}
	return cmp.Or(strings.Join(names, ", "), a.Request.Status.Provider)
}

// changed returns when a condition of the request changed last.
func (a Asked) changed(of string) time.Time {
	if c := meta.FindStatusCondition(a.Request.Status.Conditions, of); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// event returns when the agent first reported a state.
func (a Asked) event(state api.State) (first time.Time) {
	for _, e := range a.Events {
		if e.Reason == string(state) && (first.IsZero() || e.At.Before(first)) {
			first = e.At
		}
	}
	return first
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
