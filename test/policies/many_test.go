package policies

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// A provider of very many consumers lets each map as many namespaces as it may have, and write all
// else: what a policy costs does not grow with the number of consumers, which Kubernetes would
// refuse.
func TestManyConsumers(t *testing.T) {
	w := start(t)
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const many = 1000
	m := &corev1.ConfigMap{}
	if err := w.admin.Get(t.Context(), kube.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}, m); err != nil {
		t.Fatal(err)
	}
	maps.Copy(m.Data, consumers(0, many))
	for i := range 100 { // whose IDs end in rome's
		m.Data[fmt.Sprintf("site-%d-rome", i)] = "brokered"
	}
	if err := w.keeper.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	p := &posture.Policies{Known: w.admin, Reader: w.admin, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo"}
	if err := p.List(t.Context(), "paris", nil, nil); err != nil {
		t.Fatal(err)
	}
	c := w.mustAs(t, controlPlaneOf("rome"))
	mapping := func(last string) *offv1beta1.NamespaceMap {
		o := honest("namespacemaps", "many").(*offv1beta1.NamespaceMap)
		o.Spec.DesiredMapping = map[string]string{"last": last}
		for i := range 63 {
			o.Spec.DesiredMapping[fmt.Sprintf("a-namespace-with-a-long-name-%d",
				i)] = fmt.Sprintf("a-namespace-with-a-long-name-%d-rome", i)
		}
		return o
	}
	w.eventually(t, "64 namespaces", func() error { return c.Create(t.Context(), mapping("last-rome"), kube.DryRunAll) })
	w.eventually(t, "a namespace of site-99-rome", func() error {
		if err := c.Create(t.Context(), mapping("x-site-99-rome"), kube.DryRunAll); !isRefusal(err, "NAMESPACE-CONSUMER") {
			return fmt.Errorf("it is let in: %w", err)
		}
		return nil
	})
	for _, resource := range []string{"configmaps", "secrets", "services",
		"persistentvolumeclaims", "ingresses", "shadowpods", "shadowendpointslices", "resourceslices"} {
		if err := w.mustAs(t, accountFor(resource)).Create(t.Context(),
			honest(resource, "many"), kube.DryRunAll); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

// A list that is as long as the agent makes it is kept by a real API server; one more is refused
// before the API server would.
func TestTheListIsFull(t *testing.T) {
	w := start(t)
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := &corev1.ConfigMap{}
	key := kube.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}
	if err := w.admin.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	n, size := 0, 0
	for ; size < posture.MaxList-1000; n++ {
		for k, v := range consumers(n, n+1) {
			m.Data[k] = v
			size += len(k) + len(v)
		}
	}
	if err := w.keeper.Update(t.Context(), m); err != nil {
		t.Fatalf("%d consumers, %d bytes: %v", n, size, err)
	}
	t.Logf("%d consumers take %d bytes", n, size)
	p := &posture.Policies{Known: w.admin, Reader: w.admin, Writer: w.keeper, Namespace: "bourse", Cluster: "oslo"}
	if err := p.List(t.Context(), "one-more", nil,
		[]posture.Slice{{Name: strings.Repeat("x", 2000), User: "u"}}); api.CodeOf(err) != api.CodeCapReached {
		t.Errorf("one more: %v", err)
	}
	if err := p.List(t.Context(), "small", nil, nil); err != nil {
		t.Error(err)
	}
}

// consumers are entries of the list as the agent writes them, for consumers of one pool.
func consumers(from, to int) map[string]string {
	all := map[string]string{}
	for i := from; i < to; i++ {
		id := fmt.Sprintf("cluster-%05d-eu", i)
		u := id + "-general-1a2b3c4d-0123456789ab"
		for k, v := range map[string]string{
			id: "brokered", id + ".at": "oslo", id + ".slices": id + "-general-1a2b3c4d=500", id +
				".annotations": "lb.example/kind",
			u + ".of": id, u + ".nodes": "bourse.dev/pool=general", u + ".storage": "fast", u + ".runtimes": "nvidia",
		} {
			all[k] = v
		}
	}
	return all
}
