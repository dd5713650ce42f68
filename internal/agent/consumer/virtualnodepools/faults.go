package virtualnodepools

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// fault is a condition of a provider's reservation that is not as it should be.
type fault struct {
	provider, reason, message string
}

// summed are the conditions of reservations that a pool sums up besides Offloaded, which it always has. It has one of
// these while a provider has that fault.
var summed = []string{api.ConditionSuspended, api.ConditionGranted, api.ConditionReflected, api.ConditionPodsComply,
	api.ConditionLabelsDropped}

// A provider may take waitsLong for its next step before the pool shows that.
const waits, waitsLong = "Waiting", time.Minute

// noteFaults notes what the instruction of a provider's reservation says is wrong.
func (c *children) noteFaults(provider string, i *api.ReservationInstruction) {
	for _, condition := range i.Status.Conditions {
		if condition.Type != api.ConditionOffloaded && !slices.Contains(summed, condition.Type) ||
			!api.IsFaultOfPool(condition) ||
			condition.Reason == waits && c.seen.Now.Sub(condition.LastTransitionTime.Time) < waitsLong {
			continue
		}
		c.faults[condition.Type] = append(c.faults[condition.Type],
			fault{provider, condition.Reason, cmp.Or(api.WithoutCode(condition.Message), condition.Reason)})
	}
}

// full returns which providers map no more of the namespaces, and why.
func (c *children) full() (texts []string) {
	for _, fault := range c.faults[api.ConditionOffloaded] {
		if fault.reason == string(api.CodeNamespacesFull) {
			texts = append(texts, fault.message)
		}
	}
	return texts
}

// showFaults gives a pool the conditions that sum up those of its providers, and takes off those without a fault. It
// returns the texts that are not known, and the reason for which pods cannot start somewhere, empty if they can.
func (c *children) showFaults(conditions *[]metav1.Condition, known []string,
	set func(kind string, holds bool, yes, no, message string)) (reason string, more []string) {
	for _, kind := range summed {
		faults := c.faults[kind]
		if len(faults) == 0 {
			meta.RemoveStatusCondition(conditions, kind)
			continue
		}
		var texts []string
		for _, fault := range faults {
			text := fault.provider + ": " + fault.message
			if texts = append(texts, text); !slices.Contains(known, text) {
				more, known = append(more, text), append(known, text)
			}
		}
		why := faults[0].reason
		holds := kind == api.ConditionSuspended || kind == api.ConditionLabelsDropped
		if set(kind, holds, why, why, strings.Join(texts, "; ")); kind == api.ConditionSuspended {
			reason = why
		}
	}
	return reason, more
}
