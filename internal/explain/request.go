package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Request says in one word how a request stands, and in a sentence why; the sentence is empty if all is well. The word
// is the state of its reservation, Asked before there is one, or Refused.
func Request(s api.ResourceRequestStatus) (word, why string) {
	why, _, _ = strings.Cut(s.Message, "; see: bourse why")
	ready := meta.FindStatusCondition(s.Conditions, api.ConditionReady)
	switch {
	case s.State == "" && asksAgain(s):
		return "Asked", api.WithoutCode(why)
	case s.State == "":
		return "Refused", api.WithoutCode(why)
	case s.State == api.Active && (ready == nil || ready.Status == metav1.ConditionTrue):
		return string(s.State), ""
	}
	return string(s.State), api.WithoutCode(why)
}

// Shrinks says what becomes of pods when a reservation gets smaller.
const Shrinks = "Pods that do not fit a smaller reservation are evicted: those of low priority and the youngest first."

// KeepsAsking says what becomes of a change that a provider refused and nobody withdraws.
const KeepsAsking = "the agent asks again every minute"

// Reservations returns the IDs of a request's reservations: of all parts if it is split.
func Reservations(s api.ResourceRequestStatus) (ids []string) {
	for _, part := range s.Parts {
		ids = append(ids, part.Reservation)
	}
	if len(ids) == 0 && s.Reservation != "" {
		ids = append(ids, s.Reservation)
	}
	return ids
}

// NotReady says that new pods cannot use a bound reservation, and why; empty if they can. id is NAMESPACE/NAME.
func NotReady(id string, s api.ResourceRequestStatus) string {
	bound := s.State == api.Reserved || s.State == api.Active
	if !bound || !meta.IsStatusConditionFalse(s.Conditions, api.ConditionReady) {
		return ""
	}
	return fmt.Sprintf("reservation %s (%s) on %s is NOT READY: %s", s.Reservation, id, s.Provider, s.Message)
}

// PodFault returns the condition of an instruction by which pods cannot run at the provider, or lack something there;
// nil if there is none.
func PodFault(conditions []metav1.Condition) *metav1.Condition {
	for _, of := range []string{api.ConditionOffloaded, api.ConditionPodsComply, api.ConditionReflected} {
		if c := meta.FindStatusCondition(conditions, of); c != nil && c.Status == metav1.ConditionFalse {
			return c
		}
	}
	return nil
}

// Fact is a condition of a request or of its instruction, in words.
type Fact struct {
	metav1.Condition
	Text string
}

// Facts returns the conditions of a request and of its instruction, with the reason of each that does not hold.
func Facts(r api.RequestStatus) (facts []Fact) {
	of := slices.Clone(r.Status.Conditions)
	for _, c := range r.Steps {
		if c.Type != api.ConditionReady { // the request has its own
			of = append(of, c)
		}
	}
	for _, c := range of {
		text := string(c.Status)
		if c.Status != metav1.ConditionTrue || c.Message != "" && c.Message != r.Status.Message {
			text += ", " + Reason(c.Reason, c.Message)
		}
		facts = append(facts, Fact{c, text})
	}
	return facts
}

// Steps are the conditions on the way from Reserved to running pods.
var Steps = []string{api.ConditionPeered, api.ConditionGranted, api.ConditionNodeReady, api.ConditionOffloaded}

// Step describes a step. It is empty if nothing is known.
func Step(c *metav1.Condition) string {
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return c.Type
	}
	return fmt.Sprintf("%s: not yet: %s", c.Type, Reason(c.Reason, c.Message))
}

// StuckAt returns the step that a request has not reached, or its state.
func StuckAt(r api.RequestStatus) string {
	for _, of := range Steps {
		if c := meta.FindStatusCondition(r.Steps, of); c != nil && c.Status != metav1.ConditionTrue {
			return Step(c)
		}
	}
	return r.Status.Message
}

// Impact returns sentences that say what would end with a request: what its pods use at its providers, by namespace, and
// which volumes. id is NAMESPACE/NAME.
func Impact(id string, impact api.Impact, instructions []api.ReservationInstruction) (lines []string) {
	for _, i := range instructions {
		used, at := 0, fmt.Sprintf("%s: at %s, reservation %s of %s would end", id, i.Spec.Provider, i.Spec.Reservation,
			Sizes(i.Spec.Resources))
		lines = append(lines, at)
		for _, of := range i.Status.Namespaces {
			if len(of.Used) > 0 {
				used++
				lines = append(lines, fmt.Sprintf("  pods of %s use %s there", of.Name, Sizes(of.Used)))
			}
		}
		if len(i.Status.Others) > 0 {
			used++
			lines = append(lines, fmt.Sprintf("  pods of other namespaces use %s there", Sizes(i.Status.Others)))
		}
		if used == 0 {
			lines = append(lines, "  no pod uses it")
		}
	}
	if len(instructions) == 0 {
		lines = append(lines, id+": nothing is bound")
	}
	if impact.Pods != nil {
		lines = append(lines, fmt.Sprintf("  on its virtual nodes: %s", impact.Pods))
	}
	if impact.Volumes != nil {
		lines = append(lines, fmt.Sprintf("  %s would be deleted", impact.Volumes))
	}
	return lines
}
