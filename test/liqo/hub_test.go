package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// hubLabel is on the virtual nodes that milan lends on. An admin of milan puts it there.
var hubLabel = map[string]string{"lent": "on"}

// hub makes milan a hub of what it borrows from paris, on virtual nodes with these labels.
func (w *world) hub(t *testing.T, selector map[string]string) {
	t.Helper()
	t.Cleanup(func() { w.offers(t, "milan", map[string]string{api.GeneralPool: "32"}) })
	w.withPolicy(t, w.paris, func(s *api.Sharing) { s.Relend = true })
	w.withPolicy(t, w.milan, func(s *api.Sharing) {
		s.Network = api.NetworkNone
		s.Pools = []api.PoolPolicy{{Name: api.GeneralPool,
			VirtualNodes: &api.VirtualNodes{Selector: api.VirtualNodeSelector{MatchLabels: selector}}}}
	})
	eventually(t, "the broker knows that paris lets consumers lend on", func(ctx context.Context) error {
		asked := api.Request{Resources: amounts("8", "16Gi"), Target: "paris", Relend: true}
		e, err := w.milan.People(0).DryRun(ctx, api.RequestCreate{Request: asked})
		if err == nil && e.Decision.Candidates != 1 {
			err = fmt.Errorf("it decides %+v", e.Decision)
		}
		return err
	})
}

// upstream borrows 8 CPU of paris, which the hub lends on, and waits until rome sees them.
func (w *world) upstream(t *testing.T, name string) *asked {
	t.Helper()
	upstream := w.ask(t, w.milan, w.paris, name, amounts("8", "16Gi"), func(r *api.ResourceRequest) {
		r.Spec.Relend = true
		r.Spec.Offload.Reflect = &api.Reflect{Secrets: api.ReflectAll}
	})
	upstream.becomes(api.Active)
	var nodes corev1.NodeList
	if err := w.milan.Objects.List(t.Context(), &nodes, kube.MatchingLabels{"bourse.dev/provider": "paris"}); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		w.label(t, w.milan, nodes.Items[i].Name, hubLabel)
	}
	w.offers(t, "milan", map[string]string{api.GeneralPool: "8"})
	return upstream
}

// upstreamNode is the only virtual node with these labels that milan lends on.
func upstreamNode(t *testing.T, w *world, labels map[string]string) corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := w.milan.Objects.List(t.Context(), &list, kube.MatchingLabels(labels)); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d virtual nodes, %v", len(list.Items), err)
	}
	return list.Items[0]
}

// A hub lends on what it borrows: pods of a customer run at the hub's provider, and the customer sees
// them Running. The hub's own nodes get none. What ends at the customer leaves nothing behind.
func TestHub(t *testing.T) {
	w := start(t)
	w.hub(t, hubLabel)
	upstream := w.upstream(t, "upstream")
	a := w.ask(t, w.rome, w.milan, "resold", amounts("4", "8Gi"))
	a.becomes(api.Active)
	a.run(3, "500m", "64Mi")
	a.running(w.milan, 3)
	node := upstreamNode(t, w, hubLabel).Name
	var here corev1.PodList
	if err := w.milan.Objects.List(t.Context(), &here, kube.InNamespace("resold-rome")); err != nil {
		t.Fatal(err)
	}
	for _, p := range here.Items {
		if p.Spec.NodeName != node {
			t.Errorf("pod %s of the customer is on %s of the hub", p.Name, p.Spec.NodeName)
		}
	}
	var o offv1beta1.NamespaceOffloading
	if err := w.milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "resold-rome", Name: "offloading"}, &o); err != nil {
		t.Fatal(err)
	}
	remote := o.Spec.RemoteNamespaceName
	if !strings.HasPrefix(remote, "agg-") || !strings.HasSuffix(remote, "-milan") || strings.Contains(remote, "rome") {
		t.Errorf("the namespace at the provider is %q", remote)
	}
	var there corev1.PodList
	if err := w.paris.Objects.List(t.Context(), &there, kube.InNamespace(remote)); err != nil || len(there.Items) != 3 {
		t.Errorf("%d pods run at the provider, %v", len(there.Items), err)
	}
	var ns corev1.Namespace
	if err := w.paris.Objects.Get(t.Context(), kube.ObjectKey{Name: remote}, &ns); err != nil ||
		ns.Labels["bourse.dev/tenant"] != strings.Split(remote, "-")[1] {
		t.Errorf("the provider's namespace is labelled %v, %v", ns.Labels, err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	eventually(t, "nothing of it is left at the provider", func(ctx context.Context) error {
		err := w.paris.Objects.Get(ctx, kube.ObjectKey{Name: remote}, &corev1.Namespace{})
		if kube.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("namespace %s is there: %w", remote, err)
	})
	upstream.release()
	w.nothingLeft(t, w.milan, w.paris)
}

// A hub loses the provider behind it while customers' pods run there: they leave, and wait. They run
// again, as soon as the hub lends on another virtual node.
func TestHubsProviderLeaves(t *testing.T) {
	w := start(t)
	w.hub(t, hubLabel)
	first := w.upstream(t, "first")
	a := w.ask(t, w.rome, w.milan, "moved", amounts("4", "8Gi"))
	a.becomes(api.Active)
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	first.release()
	w.nothingLeft(t, w.milan, w.paris)
	second := w.upstream(t, "second")
	a.running(w.milan, 2)
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	second.release()
	w.nothingLeft(t, w.milan, w.paris)
}
