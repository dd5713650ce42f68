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
	for _, is := range i.Status.Conditions {
		if is.Type != api.ConditionOffloaded && !slices.Contains(summed, is.Type) || !api.IsFaultOfPool(is) ||
			is.Reason == waits && c.seen.Now.Sub(is.LastTransitionTime.Time) < waitsLong {
			continue
		}
		c.faults[is.Type] = append(c.faults[is.Type],
			fault{provider, is.Reason, cmp.Or(api.WithoutCode(is.Message), is.Reason)})
	}
}

// full returns which providers map no more of the namespaces, and why.
func (c *children) full() (texts []string) {
	for _, one := range c.faults[api.ConditionOffloaded] {
		if one.reason == string(api.CodeNamespacesFull) {
			texts = append(texts, one.message)
		}
	}
	return texts
}

// showFaults gives a pool the conditions that sum up those of its providers, and takes off those without a fault. It
// returns the texts that say more than known, and the reason for which pods cannot start somewhere, empty if they can.
func (c *children) showFaults(conditions *[]metav1.Condition, known string,
	set func(kind string, is bool, yes, no, message string)) (reason string, more []string) {
	for _, kind := range summed {
		faults := c.faults[kind]
		if len(faults) == 0 {
			meta.RemoveStatusCondition(conditions, kind)
			continue
		}
		var texts []string
		for _, one := range faults {
			text := one.provider + ": " + one.message
			if texts = append(texts, text); !strings.Contains(known, text) {
				more, known = append(more, text), known+"; "+text
			}
		}
		why := faults[0].reason
		is := kind == api.ConditionSuspended || kind == api.ConditionLabelsDropped
		if set(kind, is, why, why, strings.Join(texts, "; ")); kind == api.ConditionSuspended {
			reason = why
		}
	}
	return reason, more
}
