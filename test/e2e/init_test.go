package e2e

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/charts"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
)

// What `bourse init` applies, an API server takes, again and again. In a namespace of its own, and without sharing,
// so that it is in nobody's way: at the end the rights are those of the federation's agent again.
func TestInitApplies(t *testing.T) {
	w := start(t)
	ctx, config := t.Context(), w.rome.Cluster.Config()
	i := install.Installation{Namespace: "bourse-init", Image: "registry.example/bourse:1",
		Join: "first", Args: []string{"--cluster-id=rome"}, Connector: true}
	for _, i.Join = range []string{"first", "second", "second"} {
		if err := i.Apply(ctx, config, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := w.rome.Cluster.Apply(context.Background(), charts.AgentRights); err != nil {
			t.Error(err)
		}
	})
	var secret corev1.Secret
	var deployment appsv1.Deployment
	for _, one := range []struct {
		name   string
		object kube.Object
	}{{"bourse-join", &secret}, {"bourse-agent", &deployment}} {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: i.Namespace, Name: one.name}, one.object); err != nil {
			t.Fatal(err)
		}
	}
	if string(secret.Data["token"]) != "second" || deployment.Generation != 1 ||
		len(deployment.Spec.Template.Spec.Containers[0].Args) != 8 {
		t.Errorf("%s, generation %d, %v", secret.Data["token"], deployment.Generation,
			deployment.Spec.Template.Spec.Containers)
	}
	share := install.Installation{Namespace: i.Namespace,
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: new(int32(50)), Caps: cpu("1")}}}}
	for _, o := range share.Objects() {
		if policy, ok := o.(*api.SharingPolicy); ok {
			if err := w.rome.Objects.Create(ctx, policy, kube.DryRunAll); err != nil {
				t.Error(err)
			}
		}
	}
}
