package federation_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// A policy that an earlier version stored with the fields `placeholders` and `resourcePlugin`
// shares what it shared. Its condition and the doctor name the fields and the remedies until they
// are removed. The condition of the plugin, which nothing asks, is removed.
func TestAPolicyWithIgnoredFieldsStaysInForce(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	//lint:ignore SA1019 it is about this field
	change := func(placeholders *api.Placeholders, plugin string) {
		t.Helper()
		var policy api.SharingPolicy
		if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		before := policy.DeepCopy() // patches, because the agent writes the status of the policy too
		meta.SetStatusCondition(&policy.Status.Conditions,
			metav1.Condition{Type: "ResourcePlugin", Status: "True", Reason: "Answers"})
		if err := f.milan.Objects.Status().Patch(t.Context(), &policy, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		before = policy.DeepCopy()
		policy.Spec.Pools[0].Placeholders, policy.Spec.ResourcePlugin = placeholders, plugin
		if err := f.milan.Objects.Patch(t.Context(), &policy, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	says := func(is bool) func() bool {
		return func() bool {
			var policy api.SharingPolicy
			if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
				return false
			}
			ready := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionReady)
			if ready == nil || ready.Status != "True" || ready.ObservedGeneration != policy.Generation {
				return false
			}
			if meta.FindStatusCondition(policy.Status.Conditions, "ResourcePlugin") != nil {
				return false
			}
			c := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionIgnoredFields)
			return !is && c == nil ||
				is && c != nil && c.Status == "True" && strings.Contains(c.Message,
					"pools.general.placeholders has no effect: remove it") &&
					strings.Contains(c.Message, "resourcePlugin has no effect: remove it")
		}
	}
	doctor := func(is bool) func() bool {
		return func() bool {
			d, err := f.milan.People.Diagnose(t.Context())
			for _, field := range []string{"pools.general.placeholders", "resourcePlugin"} {
				if err != nil || is != slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
					return p.Code == health.FieldIgnored.Code && strings.Contains(p.Subject, field) && p.Remedy != ""
				}) {
					return false
				}
			}
			return true
		}
	}
	//lint:ignore SA1019 as above
	old := &api.Placeholders{PriorityClass: "bourse-placeholder", Image: "registry.k8s.io/pause:3.10"}
	change(old, "no address")
	f.until("the policy names the fields", says(true))
	f.until("the doctor names the fields", doctor(true))
	if pool, ok := must(f.rome.People.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool]; !ok ||
		len(pool.Shared) == 0 {
		t.Errorf("milan shares %+v", pool)
	}
	change(nil, "")
	f.until("the policy names no field", says(false))
	f.until("the doctor names no field", doctor(false))
}
