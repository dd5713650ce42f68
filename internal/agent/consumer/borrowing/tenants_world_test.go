package borrowing

import (
	"context"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// tenants is a cluster that borrows from milan for several namespaces. It plays Liqo and the provider.
type tenants struct {
	*testing.T
	client.Client
	*Borrowing
	ledger *exchange.Exchange
	used   pods
	clock  *testclock.FakePassiveClock
	guard  error                                  // why nothing can be kept apart
	grants func(*authv1beta1.ResourceSliceStatus) // changes what milan grants; nil: nothing
}

func newTenants(t *testing.T) *tenants {
	kind := func(group schema.GroupVersion, kind, name string) kubeapi.Type {
		return kubeapi.Type{GroupVersion: group, Kind: kind, Resource: name, Namespaced: true, Status: true}
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "VirtualNodePool", Resource: "virtualnodepools", Status: true},
		{GroupVersion: api.GroupVersion, Kind: "SharingPolicy", Resource: "sharingpolicies", Status: true},
		kind(api.GroupVersion, "Peer", "peers"),
		kind(api.GroupVersion, "ResourceRequest", "resourcerequests"),
		kind(api.GroupVersion, "ReservationInstruction", "reservationinstructions"),
		kind(authv1beta1.GroupVersion, authv1beta1.ResourceSliceKind, "resourceslices"),
		kind(authv1beta1.GroupVersion, authv1beta1.IdentityKind, "identities"),
		kind(networkingv1beta1.GroupVersion, "Configuration", "configurations"),
		kind(offv1beta1.SchemeGroupVersion, "NamespaceOffloading", "namespaceoffloadings"),
		kind(offv1beta1.SchemeGroupVersion, "NamespaceMap", "namespacemaps"),
		kind(offv1beta1.SchemeGroupVersion, "VirtualNode", "virtualnodes"),
		kind(offv1beta1.SchemeGroupVersion, "VkOptionsTemplate", "vkoptionstemplates"),
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	w := &tenants{T: t, Client: c, ledger: exchangetest.Open(t, nil, exchange.Options{Self: "rome"}), used: pods{},
		clock: testclock.NewFakePassiveClock(time.Now())}
	w.create(&offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
		Name: "virtual-kubelet-default"}})
	w.create(liqo.NewTenantNamespace("milan"))
	graces := grant.Graces{Shrink: time.Minute, Excess: time.Minute}
	w.Borrowing = New(Options{
		Client: c, Reader: c, Market: w.ledger, Relay: &transporttest.Broker{}, Inventory: w.used, Graces: graces,
		Peering: &peering.Consumer{Client: c, Cluster: "rome", LiqoNamespace: "liqo", Clock: w.clock},
		Network: &network.Network{Client: c, Reader: c, Cluster: "rome"},
		Slices: &offload.Slices{Client: c, Reader: c, LiqoNamespace: "liqo",
			Guarded: func(context.Context) error { return w.guard }},
		Namespace: api.Namespace,
	})
	return w
}

func (w *tenants) create(o client.Object) {
	w.Helper()
	if err := w.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *tenants) get(namespace, name string, o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

// borrows makes a request of a namespace that is bound at milan, for one CPU.
func (w *tenants) borrows(namespace string, o *api.Offload) {
	w.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if o != nil {
		o.Namespaces = []string{namespace}
	}
	w.binds(namespace, o, "1")
}

// binds makes a request of a namespace that exists.
func (w *tenants) binds(namespace string, o *api.Offload, cpu string) {
	w.Helper()
	request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "request"}}
	request.Spec.Offload = o
	w.reserve(request, "of-"+namespace, cpu)
}

// burstsFrom makes the VirtualNodePool burst of a namespace, with a request that is bound at milan.
func (w *tenants) burstsFrom(namespace string) {
	w.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.create(&api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "burst"},
		Spec: api.VirtualNodePoolSpec{Namespaces: []string{namespace}, Max: transporttest.CPU("9")}})
	w.reserve(&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "burst-milan",
		Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}}}, "of-burst", "1")
}

// reserve makes a request, and a reservation at milan for it.
func (w *tenants) reserve(request *api.ResourceRequest, id, cpu string) {
	w.Helper()
	w.create(request)
	w.create(&api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: id}})
	size, err := amounts.ParseRequest("", transporttest.CPU(cpu))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.ledger.Do(w.Context(), market.Note{Reservation: &market.Reservation{
		ID: id, State: api.Reserved, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size,
		Assignment: "assignment", Until: market.At(w.ledger.Now().Go().Add(time.Hour)),
		Object: &market.Object{Namespace: request.Namespace, Name: request.Name, UID: string(request.UID)},
	}}); err != nil {
		w.Fatal(err)
	}
}

// becomesActive notes in the Ledger that a reservation is Active.
func (w *tenants) becomesActive(id string) {
	w.Helper()
	var next market.Reservation
	if err := w.ledger.Read(w.Context(), func(s *market.State) { next = *s.Reservation(id) }); err != nil {
		w.Fatal(err)
	}
	if next.State = api.Active; next.ID == "" {
		w.Fatalf("%s is unknown", id)
	}
	if _, err := w.ledger.Do(w.Context(), market.Note{Reservation: &next}); err != nil {
		w.Fatal(err)
	}
}

// serve serves milan, and does what Liqo and the provider do, until nothing changes any more.
func (w *tenants) serve() (waits string) {
	w.Helper()
	for range 6 {
		var err error
		if waits, err = w.Serve(w.Context(), "milan"); err != nil {
			w.Fatal(err)
		}
		w.grantAll()
		w.mapAll()
	}
	return waits
}

// grantAll grants all slices, and makes the Node of each VirtualNode Ready.
func (w *tenants) grantAll() {
	w.Helper()
	var all authv1beta1.ResourceSliceList
	if err := w.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		s := &all.Items[i]
		if s.Status.Resources == nil {
			identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name,
				Labels: map[string]string{consts.ResourceSliceNameLabelKey: s.Name}}}
			if w.Create(w.Context(), identity) == nil {
				identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig"}
				w.update(identity)
			}
		}
		s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("100")}
		s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{
			Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted}}
		if w.grants != nil {
			w.grants(&s.Status)
		}
		w.update(s)
	}
	var nodes offv1beta1.VirtualNodeList
	if err := w.List(w.Context(), &nodes); err != nil {
		w.Fatal(err)
	}
	for _, v := range nodes.Items {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: v.Name, Labels: v.Spec.Labels}}
		if err := w.Create(w.Context(), node); err != nil {
			continue
		}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("100")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		w.update(node)
	}
}

// mapAll maps all namespaces that are offloaded.
func (w *tenants) mapAll() {
	w.Helper()
	var all offv1beta1.NamespaceOffloadingList
	if err := w.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		all.Items[i].Status.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{
			"milan": {{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue}},
		}
		w.update(&all.Items[i])
	}
}

func (w *tenants) update(o client.Object) {
	w.Helper()
	if err := w.Status().Update(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// offloaded lists the namespaces whose pods may run on milan's virtual nodes.
func (w *tenants) offloaded() []string {
	w.Helper()
	_, names, err := w.namespaces.Nodes(w.Context(), "milan")
	if err != nil {
		w.Fatal(err)
	}
	return names
}

// shows demands a condition of the instruction of a namespace, with all of the words.
func (w *tenants) shows(namespace, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	w.Helper()
	var i api.ReservationInstruction
	w.get(namespace, "of-"+namespace, &i)
	c := meta.FindStatusCondition(i.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		w.Errorf("%s of %s is %+v, want %s, %s", kind, namespace, c, status, reason)
		return
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			w.Errorf("%s of %s says %q, want %q", kind, namespace, c.Message, word)
		}
	}
}

// byHand makes a virtual node with milan that runs with arguments.
func (w *tenants) byHand(args ...string) {
	w.Helper()
	v := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "by-hand"},
		Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan", Template: &offv1beta1.DeploymentTemplate{
			Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}, Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kubelet", Args: args}}},
			}},
		}}}
	w.create(v)
}
