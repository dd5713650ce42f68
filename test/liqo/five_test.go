package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/test/byhand"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// fiveClusters are a federation of rome, florence, the hub milan and paris, and beside it lyon, which has Liqo
// and nothing of Bourse.
func fiveClusters(t *testing.T) (w *world, florence, lyon *federation.Member) {
	t.Helper()
	w, florence, lyon = start(t), member("florence", "it"), member("lyon", "fr")
	w.spent = true
	if err := w.Add(t.Context(), w.lab, florence); err != nil {
		t.Fatal(err)
	}
	var err error
	if lyon.Cluster, err = w.lab.Cluster(t.Context(), lyon.ClusterOptions); err != nil {
		t.Fatal(err)
	}
	if lyon.Objects, err = kube.NewWithWatch(lyon.Cluster.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	return w, florence, lyon
}

// A hub lends on what a VirtualNodePool gathers of one provider, and what an admin borrows by hand of another one,
// which has Liqo alone. Of two customers a greedy one gets its size, and the other one its own.
func TestTwoCustomersOfOneHub(t *testing.T) {
	w, florence, lyon := fiveClusters(t)
	w.hub(t, poolLabel)
	pool := w.gathers(t, amounts("8", "16Gi"), "paris")
	byHand := byhand.Peering{Consumer: w.milan, Provider: lyon}
	if err := byHand.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	slice, err := byHand.Slice(t.Context(), "other", corev1.ResourceList(amounts("6", "16Gi")))
	if err != nil {
		t.Fatal(err)
	}
	if err := byHand.Ready(t.Context(), slice.Name); err != nil {
		t.Fatal(err)
	}
	w.label(t, w.milan, slice.Name, poolLabel)
	w.offers(t, "milan", map[string]string{api.GeneralPool: "8"})
	w.withPolicy(t, w.milan, func(s *api.Sharing) {
		s.Pools[0].VirtualNodes.ByHand = []api.HandMadeNode{{Node: slice.Name, Max: amounts("4", "8Gi")}}
	})
	w.offers(t, "milan", map[string]string{api.GeneralPool: "12"})
	if c, err := w.rome.People(0).Cluster(t.Context(), "milan"); err != nil || !c.Payload.Properties.Unverified {
		t.Errorf("the hub does not say that a part is unverified: %+v, %v", c.Payload.Properties, err)
	}

	greedy := w.ask(t, w.rome, w.milan, "greedy", amounts("8", "16Gi"))
	modest := w.ask(t, florence, w.milan, "modest", amounts("4", "8Gi"))
	greedy.becomes(api.Active)
	modest.becomes(api.Active)
	greedy.run(40, "500m", "64Mi")
	greedy.running(w.milan, 16)
	work := modest.run(8, "500m", "64Mi")
	modest.running(w.milan, 8)
	tenants := map[string]string{}
	for of, namespace := range map[string]string{"rome": "greedy-rome", "florence": "modest-florence"} {
		tenants[of] = w.tenantAt(t, w.paris, namespace)
	}
	if tenants["rome"] == tenants["florence"] {
		t.Errorf("both customers are tenant %s at paris", tenants["rome"])
	}
	eventually(t, "24 pods run at both providers", func(ctx context.Context) error {
		at := map[string]int{}
		for _, provider := range []*federation.Member{w.paris, lyon} {
			var list corev1.PodList
			if err := provider.Objects.List(ctx, &list, kube.MatchingLabels{"liqo.io/managed-by": "shadowpod"}); err != nil {
				return err
			}
			for _, p := range list.Items {
				if p.Status.Phase == corev1.PodRunning && strings.HasPrefix(p.Namespace, "agg-") {
					at[provider.Name]++
				}
			}
		}
		if at["paris"]+at["lyon"] != 24 || at["lyon"] < 8 {
			return fmt.Errorf("they are %v", at)
		}
		return nil
	})

	greedy.release()
	// Liqo's quota counts pods that ended for a while: what moves needs as much beside it.
	before := work.DeepCopy()
	work.Spec.Replicas = new(int32(4))
	if err := florence.Objects.Patch(t.Context(), work, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	modest.running(w.milan, 4)
	w.withPolicy(t, w.milan, func(s *api.Sharing) { s.Pools[0].VirtualNodes.ByHand = nil })
	w.noCustomerAt(t, lyon) // its pods move, and then its namespaces go
	modest.running(w.milan, 4)
	modest.release()
	w.nothingLeft(t, w.rome, w.milan)
	w.nothingLeft(t, florence, w.milan)
	w.disbanded(t, pool)
	w.nothingLeft(t, w.milan, w.paris)
	if err := byHand.Close(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	w.noCustomerAt(t, w.paris)
}

// noCustomerAt waits until a provider has no namespace of a hub's customer.
func (w *world) noCustomerAt(t *testing.T, provider *federation.Member) {
	t.Helper()
	eventually(t, "no namespace of a customer is left at "+provider.Name, func(ctx context.Context) error {
		var list corev1.NamespaceList
		err := provider.Objects.List(ctx, &list)
		for _, ns := range list.Items {
			if strings.HasPrefix(ns.Name, "agg-") {
				err = fmt.Errorf("namespace %s is there", ns.Name)
			}
		}
		return err
	})
}

// tenantAt returns the tenant as which a provider knows the customer of a namespace of milan.
func (w *world) tenantAt(t *testing.T, provider *federation.Member, namespace string) (tenant string) {
	t.Helper()
	eventually(t, namespace+" is at "+provider.Name, func(ctx context.Context) error {
		var list corev1.NamespaceList
		err := provider.Objects.List(ctx, &list, kube.HasLabels{"bourse.dev/tenant"})
		for _, ns := range list.Items {
			if ns.Annotations["liqo.io/original-name"] == namespace {
				tenant = ns.Labels["bourse.dev/tenant"]
			}
		}
		if err == nil && tenant == "" {
			err = fmt.Errorf("it is not among %v", namesIn(&list))
		}
		return err
	})
	return tenant
}

// label gives a Node labels, as an admin does.
func (w *world) label(t *testing.T, at *federation.Member, name string, labels map[string]string) {
	t.Helper()
	node := &corev1.Node{}
	node.Name = name
	for key, value := range labels {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
		if err := at.Objects.Patch(t.Context(), node, kube.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
}
