package cluster_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// The agent's namespace and the cluster's ID are what the agent's record says. In a cluster without one the namespace is
// the usual one.
func TestAnAgentInAnotherNamespace(t *testing.T) {
	for _, want := range []string{api.Namespace, "platform-x"} {
		config, admin := simulated(t)
		name, record := "", &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
		if want != api.Namespace {
			name = "rome"
			patch := merge(`{"status":{"namespace":"platform-x","cluster":"rome"}}`)
			if err := errors.Join(admin.Create(t.Context(), record), admin.Status().Patch(t.Context(), record, patch)); err != nil {
				t.Fatal(err)
			}
		}
		lent := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: want, Name: "r-1"}}
		lent.Spec.Resources, lent.Spec.Until = api.Resources{"cpu": resource.MustParse("1")}, metav1.Now()
		if err := admin.Create(t.Context(), lent); err != nil {
			t.Fatal(err)
		}
		user, err := cluster.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if found := user.AgentNamespace(t.Context()); found != want {
			t.Errorf("the agent is in %s, want %s", found, want)
		}
		if found := user.ClusterName(t.Context()); found != name {
			t.Errorf("the cluster is %q, want %q", found, name)
		}
		if all, err := user.Lent(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("in %s is lent %v, %v", want, all, err)
		}
		offer := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: want, Name: "web"}}
		offer.Spec.Plans = []api.Plan{{Name: "small", Resources: lent.Spec.Resources}}
		if err := admin.Create(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
		if err := user.DeleteOffer(t.Context(), "web"); err != nil {
			t.Error(err)
		}
	}
}
