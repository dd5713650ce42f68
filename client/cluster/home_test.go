package cluster_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// The agent's namespace is where its objects are. In a cluster without such objects it is the usual one.
func TestAnAgentInAnotherNamespace(t *testing.T) {
	for _, first := range []kube.Object{nil, &api.Advertisement{}, &api.Peer{}} {
		config, admin := simulated(t)
		want := api.Namespace
		if first != nil {
			want = "platform-x"
			first.SetNamespace(want)
			first.SetName("rome")
			if err := admin.Create(t.Context(), first); err != nil {
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
			t.Errorf("the agent of %T is in %s", first, found)
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
