package borrowing

import (
	"fmt"
	"slices"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A provider's card says how many namespaces it maps. A request for more is refused before it is signed. What
// would exceed the number later is held back, with a condition; what is mapped stays.
func TestNamespacesFull(t *testing.T) {
	c := newOffloads(t, kubeapi.Type{GroupVersion: api.GroupVersion, Kind: "ReservationInstruction",
		Resource: "reservationinstructions", Namespaced: true, Status: true})
	ctx, ledger := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "rome"})
	pin := market.Pin{Cluster: "milan", Key: transporttest.NewParty(t, "milan").Key.Public().String(), MaxNamespaces: 3}
	if _, err := ledger.Do(ctx, pin); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "at-milan"},
			Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", Labels: map[string]string{offload.Label("ours"): "true"}}},
		&offv1beta1.NamespaceMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{
				consts.RemoteClusterID: "milan", consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue}},
			Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"by-hand": "by-hand-rome", "ours": "ours-rome"}}},
		&api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "r"}},
	} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	b := New(Options{Client: c, Reader: c, Market: ledger, Peering: &peering.Consumer{Cluster: "rome"}, Namespace: "bourse"})

	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "r"}}
	for _, one := range []struct {
		names []string
		card  int32
		full  bool
	}{
		{[]string{"ours", "a"}, 3, false}, {[]string{"a", "b"}, 3, true}, {[]string{"a", "b"}, 0, false},
		{[]string{"ours"}, 1, false}, {nil, 1, false},
	} {
		if request.Spec.Offload = nil; one.names != nil {
			request.Spec.Offload = &api.Offload{Namespaces: one.names, Reflect: &api.Reflect{Secrets: api.ReflectAll}}
		}
		err := b.CheckNamespaces(ctx, request, &api.Card{Cluster: "milan", MaxNamespaces: one.card})
		if full := api.CodeOf(err) == api.CodeNamespacesFull; full != one.full || !full && err != nil {
			t.Errorf("%v of at most %d: %v", one.names, one.card, err)
		}
	}

	request.Spec.Offload = &api.Offload{Namespaces: []string{"b"}}
	l := bound{request: request, Reservation: &market.Reservation{
		ID: "r", Provider: "milan", Object: &market.Object{Namespace: "work", Name: "r"}}}
	isFull := func(when string, wanted, want []string, full bool) {
		t.Helper()
		got, err := b.holdBack(ctx, "milan", wanted)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
		if _, err := b.awaitNamespaces(ctx, []bound{l}); err != nil {
			t.Fatal(err)
		}
		var i api.ReservationInstruction
		if err := c.Get(ctx, client.ObjectKey{Namespace: "work", Name: "r"}, &i); err != nil {
			t.Fatal(err)
		}
		shown := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOffloaded)
		if is := shown != nil && shown.Reason == string(api.CodeNamespacesFull); is != full {
			t.Errorf("%s: it shows %+v", when, shown)
		}
	}
	isFull("one more fits", []string{"b", "ours"}, []string{"b", "ours"}, false)
	isFull("two more do not", []string{"a", "b", "ours"}, []string{"a", "ours"}, true)
	pin.MaxNamespaces = 1
	if _, err := ledger.Do(ctx, pin); err != nil {
		t.Fatal(err)
	}
	isFull("the admin lowered it", []string{"b", "ours"}, []string{"ours"}, true)
	var many []string
	for i := range 70 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	if got, err := b.holdBack(ctx, "unknown", slices.Clone(many)); err != nil || !slices.Equal(got, many) {
		t.Errorf("at a cluster that does not say how many: %v, %v", got, err)
	}
}
