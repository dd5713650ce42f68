package federation_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// A policy that an earlier version stored with the field `placeholders` shares what it shared. Its condition and the doctor name the field
// and the remedy until it is removed.
func TestAPolicyWithPlaceholdersStaysInForce(t *testing.T) {
	f := newFair(t)
	change := func(placeholders *api.Placeholders) {
		t.Helper()
		var policy api.SharingPolicy
		if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		policy.Spec.Pools[0].Placeholders = placeholders
		if err := f.milan.Objects.Update(t.Context(), &policy); err != nil {
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
			c := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionIgnoredFields)
			return !is && c == nil ||
				is && c != nil && c.Status == "True" && strings.Contains(c.Message, "pools.general.placeholders has no effect: remove it")
		}
	}
	doctor := func(is bool) func() bool {
		return func() bool {
			d, err := f.milan.People.Diagnose(t.Context())
			return err == nil && is == slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
				return p.Code == health.FieldIgnored.Code && strings.Contains(p.Subject, "pools.general.placeholders") && p.Remedy != ""
			})
		}
	}
	change(&api.Placeholders{PriorityClass: "bourse-placeholder", Image: "registry.k8s.io/pause:3.10"})
	f.until("the policy names the field", says(true))
	f.until("the doctor names the field", doctor(true))
	if pool, ok := must(f.rome.People.Cluster(t.Context(), "milan"))(t).Payload.Pools[api.GeneralPool]; !ok || len(pool.Shared) == 0 {
		t.Errorf("milan shares %+v", pool)
	}
	change(nil)
	f.until("the policy names no field", says(false))
	f.until("the doctor names no field", doctor(false))
}
