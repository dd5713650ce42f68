package borrowing

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Pods leave a virtual node made by hand within their PodDisruptionBudgets, also if there is no other node.
func TestPodsLeaveANodeMadeByHand(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"},
		Spec: corev1.PodSpec{NodeName: "by-hand"}}
	evicted, deleted := 0, 0
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(pod).
		WithIndex(pod, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				deleted++
				return nil
			},
			SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object,
				...client.SubResourceCreateOption) error {
				evicted++
				return nil
			},
		}).Build()
	b := New(Options{Client: c, Reader: c, Market: exchangetest.Open(t, nil, exchange.Options{Self: "rome"}),
		Peering: &peering.Consumer{Cluster: "rome"}, Slices: &offload.Slices{Client: c, Reader: c, LiqoNamespace: "liqo"}})
	waits, err := b.leave(t.Context(), "milan", []string{"by-hand"}, []string{"team"}, nil, nil)
	if err != nil || evicted != 1 || deleted != 0 {
		t.Errorf("%d pods are evicted, %d deleted; it waits for %q, %v", evicted, deleted, waits, err)
	}
}
