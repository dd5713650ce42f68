package sharing_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/match"
)

// A SharingPolicy that promises access through a network must have one.
func TestAnAPIServerBehindNoNetwork(t *testing.T) {
	for network, valid := range map[api.NetworkMode]bool{"": false, api.NetworkNone: false, api.NetworkWireGuard: true} {
		err := sharing.Check(&api.Sharing{Network: network, APIServerAccess: api.APIServerNetwork})
		if (err == nil) != valid || err != nil && api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("network %q: %v", network, err)
		}
	}
}

// A policy that is not valid shares nothing, and its status says why. A valid one is in force, and
// each change of it is advertised.
func TestPolicyInForce(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	policy := sharing.NewPolicy(sharing.PolicyOptions{Client: c, Engine: match.New()})
	if err := policy.Load(ctx); err != nil || policy.Sharing() != nil {
		t.Fatalf("without a policy: %+v, %v", policy.Sharing(), err)
	}
	object := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	object.Spec.Allow = "no such thing"
	if err := c.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	ready := func() *metav1.Condition {
		t.Helper()
		if err := policy.Load(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(object.Status.Conditions, api.ConditionReady)
	}
	if is := ready(); policy.Sharing() != nil || is == nil || is.Status != metav1.ConditionFalse ||
		is.Reason != string(api.CodeInvalid) {
		t.Errorf("an expression that cannot be: %+v, and %+v is in force", is, policy.Sharing())
	}
	object.Spec.Allow = ""
	object.Spec.ResourcePlugin = "plugin:6001"
	if err := c.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	if is := ready(); policy.Sharing() == nil || is.Status != metav1.ConditionTrue {
		t.Errorf("a valid policy: %+v, and %+v is in force", is, policy.Sharing())
	}
	if fields := sharing.IgnoredFields(policy.Sharing()); len(fields) != 1 ||
		!meta.IsStatusConditionTrue(object.Status.Conditions, api.ConditionIgnoredFields) {
		t.Errorf("a field without effect: %+v, %+v", fields, object.Status.Conditions)
	}
}
