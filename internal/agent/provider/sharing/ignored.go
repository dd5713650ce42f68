package sharing

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// formerPlaceholders is the namespace in which earlier versions made placeholder pods.
const formerPlaceholders = "bourse-placeholders"

// formerPluginCondition is the condition of earlier versions for the state of a resource plugin.
const formerPluginCondition = "ResourcePlugin"

// IgnoredField is a field of a SharingPolicy that no longer has an effect, and what to do about it.
type IgnoredField struct{ Path, Remedy string }

// IgnoredFields returns the fields of s that no longer have an effect. s may be nil.
func IgnoredFields(s *api.Sharing) (found []IgnoredField) {
	if s == nil {
		return nil
	}
	if s.ResourcePlugin != "" {
		found = append(found, IgnoredField{
			"resourcePlugin",
			"remove it; to bound what a consumer may have, set maxPerConsumer or a pool's caps (docs/lend.md)",
		})
	}
	for _, pool := range s.Pools {
		if pool.Placeholders != nil {
			found = append(found, IgnoredField{
				"pools." + pool.Name + ".placeholders",
				"remove it, and kubectl delete namespace --ignore-not-found " + formerPlaceholders +
					"; to reserve nodes, label and taint them (docs/lend.md)",
			})
		}
	}
	return found
}

// ignoredCondition names the ignored fields of a policy, each with its remedy. It is nil where there is none.
func ignoredCondition(object *api.SharingPolicy) *metav1.Condition {
	var sentences []string
	for _, f := range IgnoredFields(&object.Spec) {
		sentences = append(sentences, f.Path+" has no effect: "+f.Remedy)
	}
	if sentences == nil {
		return nil
	}
	return &metav1.Condition{
		Type: api.ConditionIgnoredFields, Status: metav1.ConditionTrue, Reason: "NoEffect",
		Message: strings.Join(sentences, "; "), ObservedGeneration: object.Generation,
	}
}
