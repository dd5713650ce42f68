package liqo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// If the hub's agent, the broker, or the agent behind the hub is killed at any step of gathering, growing, selling
// and ending, the rest is done after it is back. One of them is killed at each step.
func TestAHubIsKilledAtEachStep(t *testing.T) {
	w := start(t)
	w.hub(t, poolLabel)
	victims := []victim{w.agentOf(t, w.milan), w.theBroker(t), w.agentOf(t, w.paris)}
	for turn := range turns(victims) {
		killed := 0
		kill := func(when string, is func(context.Context) error) {
			t.Helper()
			v := victims[(turn+killed)%len(victims)]
			killed++
			at(t, when, is)
			t.Logf("turn %d, %s: %s is killed", turn, when, v.name)
			v.kill()
			v.start()
		}
		upstream := "liqo-tenant-milan" // of the hub, at paris
		atHub := "liqo-tenant-rome"
		name := fmt.Sprintf("sold-%d", turn)

		pool := w.gathers(t, amounts("4", "8Gi"), "paris")
		kill("paris is asked", asksProvider(w.paris))
		kill("the hub is a Tenant of paris", there(w.paris, &authv1beta1.Tenant{}, upstream, "milan"))
		kill("the hub has a virtual node", w.virtualNode)
		w.offers(t, "milan", map[string]string{api.GeneralPool: "4"})
		w.sized(t, pool, "8", "16Gi")
		kill("the hub asks for more", func(ctx context.Context) error {
			var list api.ResourceRequestList
			err := w.milan.Objects.List(ctx, &list)
			for _, r := range list.Items {
				if r.Spec.Resources.Cpu().Value() == 8 {
					return err
				}
			}
			return errors.Join(err, errors.New("no request for 8 CPU"))
		})
		w.offers(t, "milan", map[string]string{api.GeneralPool: "8"})

		a := w.ask(t, w.rome, w.milan, name, amounts("6", "12Gi"))
		kill("the hub is asked", asksProvider(w.milan))
		kill("the customer is a Tenant of the hub", there(w.milan, &authv1beta1.Tenant{}, atHub, "rome"))
		slice := market.SliceName("rome", "milan", api.GeneralPool)
		kill("the hub has granted it", grants(w.milan, atHub, slice))
		kill("the customer has a virtual node", there(w.rome, &corev1.Node{}, "", slice))
		offloading := &offv1beta1.NamespaceOffloading{}
		kill("the hub offloads the customer's namespace", there(w.milan, offloading, name+"-rome", "offloading"))
		a.becomes(api.Active)
		a.run(4, "500m", "64Mi")
		a.running(w.milan, 4)

		if err := w.rome.Objects.Delete(t.Context(), a.request.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		kill("its end is asked for", func(context.Context) error { return nil })
		kill("the hub offloads it no longer", gone(w.milan, offloading, name+"-rome", "offloading"))
		kill("the customer's ResourceSlice is gone", gone(w.rome, &authv1beta1.ResourceSlice{}, "liqo-tenant-milan", slice))
		kill("the customer's Tenant is gone", gone(w.milan, &authv1beta1.Tenant{}, atHub, "rome"))
		w.nothingLeft(t, w.rome, w.milan)
		w.noCustomerAt(t, w.paris)

		if err := w.milan.Objects.Delete(t.Context(), pool.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		kill("the pool's end is asked for", func(context.Context) error { return nil })
		kill("the hub's Tenant is gone", gone(w.paris, &authv1beta1.Tenant{}, upstream, "milan"))
		at(t, "the pool is gone", gone(w.milan, pool, "", pool.Name))
		w.nothingLeft(t, w.milan, w.paris)
	}
}

// virtualNode returns nil as soon as milan has a virtual node that it lends on.
func (w *world) virtualNode(ctx context.Context) error {
	var list corev1.NodeList
	err := w.milan.Objects.List(ctx, &list, kube.MatchingLabels(poolLabel))
	if err == nil && len(list.Items) == 0 {
		err = errors.New("no Node has its labels")
	}
	return err
}
