package liqo

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// dataPlane plays Liqo's networking controllers and gateways in one cluster, which need real nodes:
// what they would write into the status of objects that the agent made. The tunnel itself is not
// tested here.
type dataPlane struct {
	*world
	t        *testing.T
	at, peer *federation.Member
	// mapped are the addresses that at uses for the pods of peer.
	mapped networkingv1beta1.CIDR
	// external are those for its external addresses; empty: unchanged.
	external networkingv1beta1.CIDR
}

func (d *dataPlane) name() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "liqo-tenant-" + d.peer.Name, Name: d.peer.Name}
}

// reserves are the addresses of a cluster, as Liqo's chart and its IPAM have them.
func reserves(t *testing.T, at *federation.Member, pods, external string) {
	t.Helper()
	for kind, cidr := range map[string]string{"pod-cidr": pods, "external-cidr": external} {
		n := &ipamv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind,
				Labels: map[string]string{"ipam.liqo.io/network-type": kind}},
			Spec: ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr)},
		}
		if err := at.Objects.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		before := n.DeepCopy()
		n.Status.CIDR = n.Spec.CIDR
		if err := at.Objects.Status().Patch(t.Context(), n, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = at.Objects.Delete(context.Background(), n) })
	}
}

// write waits for an object and writes its status.
func (d *dataPlane) write(o kube.Object, what string, status func() bool) {
	d.t.Helper()
	eventually(d.t, d.at.Name+" has "+what, func(ctx context.Context) error {
		if err := d.at.Objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if !status() {
			return fmt.Errorf("it is %+v", o)
		}
		return d.at.Objects.Status().Update(ctx, o)
	})
}

// maps is Liqo's answer to a Configuration: the other cluster's addresses, those of its pods mapped.
func (d *dataPlane) maps(pods networkingv1beta1.CIDR) {
	d.t.Helper()
	c := &networkingv1beta1.Configuration{ObjectMeta: d.name()}
	d.write(c, "a Configuration of "+d.peer.Name, func() bool {
		c.Status.Remote = c.Spec.Remote.DeepCopy()
		c.Status.Remote.CIDR.Pod = []networkingv1beta1.CIDR{d.mapped}
		if d.external != "" {
			c.Status.Remote.CIDR.External = []networkingv1beta1.CIDR{d.external}
		}
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: c.Generation,
		})
		return len(c.Spec.Remote.CIDR.Pod) == 1 && c.Spec.Remote.CIDR.Pod[0] == pods
	})
}

// serves is a gateway that gets an address.
func (d *dataPlane) serves(kind corev1.ServiceType, address string) {
	d.t.Helper()
	g, udp := &networkingv1beta1.GatewayServer{ObjectMeta: d.name()}, corev1.ProtocolUDP
	d.write(g, "a GatewayServer for "+d.peer.Name, func() bool {
		g.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{address}, Port: 30840, Protocol: &udp}
		return g.Spec.Endpoint.ServiceType == kind && g.Spec.SecretRef.Name == "bourse-gateway"
	})
}

// dials is a gateway that was told where the other one is.
func (d *dataPlane) dials(address string) {
	d.t.Helper()
	g := &networkingv1beta1.GatewayClient{ObjectMeta: d.name()}
	d.write(g, "a GatewayClient for "+d.peer.Name, func() bool {
		e := g.Spec.Endpoint
		return len(e.Addresses) == 1 && e.Addresses[0] == address && e.Port == 30840 && *e.Protocol == corev1.ProtocolUDP
	})
}

// trusts waits until the cluster has the public key of the other one's gateway, and no private one.
func (d *dataPlane) trusts() {
	d.t.Helper()
	var theirs corev1.Secret
	eventually(d.t, d.peer.Name+"'s gateway has keys", func(ctx context.Context) error {
		return d.peer.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-" + d.at.Name, Name: "bourse-gateway"}, &theirs)
	})
	key := &networkingv1beta1.PublicKey{ObjectMeta: d.name()}
	eventually(d.t, d.at.Name+" has the public key of "+d.peer.Name, func(ctx context.Context) error {
		err := d.at.Objects.Get(ctx, kube.ObjectKeyFromObject(key), key)
		if err == nil && !bytes.Equal(key.Spec.PublicKey, theirs.Data["publicKey"]) {
			err = fmt.Errorf("it is %x", key.Spec.PublicKey)
		}
		return err
	})
	var all corev1.SecretList
	if err := d.at.Objects.List(d.t.Context(), &all); err != nil {
		d.t.Fatal(err)
	}
	for _, s := range all.Items {
		for field, value := range s.Data {
			if bytes.Contains(value, theirs.Data["privateKey"]) {
				d.t.Errorf("%s holds the private key of %s's gateway in %s/%s %s",
					d.at.Name, d.peer.Name, s.Namespace, s.Name, field)
			}
		}
	}
}

// connects is a tunnel that comes up, as the gateway reports it.
func (d *dataPlane) connects(kind networkingv1beta1.ConnectionType) {
	d.t.Helper()
	c := &networkingv1beta1.Connection{ObjectMeta: d.name(), Spec: networkingv1beta1.ConnectionSpec{Type: kind}}
	c.Name, c.Labels = "gw-"+d.peer.Name, map[string]string{"liqo.io/remote-cluster-id": d.peer.Name}
	if err := d.at.Objects.Create(d.t.Context(), c); err != nil {
		d.t.Fatal(err)
	}
	before := c.DeepCopy()
	c.Status.Value = networkingv1beta1.Connected
	if err := d.at.Objects.Status().Patch(d.t.Context(), c, kube.MergeFrom(before)); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = d.at.Objects.Delete(context.Background(), c) }) // the gateway's, with which it would go
}

// networkIs waits for the condition of a ReservationInstruction.
func (a *asked) networkIs(status metav1.ConditionStatus, reason string) {
	a.t.Helper()
	eventually(a.t, "the network of "+a.request.Name+" is "+reason, func(ctx context.Context) error {
		if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), a.request); err != nil {
			return err
		}
		var i api.ReservationInstruction
		if err := a.from.Objects.Get(ctx, kube.ObjectKey{Namespace: a.request.Namespace, Name: a.request.Status.Reservation},
			&i); err != nil {
			return err
		}
		c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNetworkReady)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it says %+v; the request is %s: %s", c, a.request.Status.State, a.request.Status.Message)
		}
		return nil
	})
}

func (w *world) askConnected(t *testing.T, from, target *federation.Member, name string) *asked {
	t.Helper()
	return w.ask(t, from, target, name, amounts("1", "1Gi"),
		func(r *api.ResourceRequest) { r.Spec.Network = api.NetworkWireGuard })
}

// noNetworkLeft waits until neither cluster has an object of a network between the two.
func (w *world) noNetworkLeft(t *testing.T, one, other *federation.Member) {
	t.Helper()
	for _, side := range []struct{ at, peer *federation.Member }{{one, other}, {other, one}} {
		eventually(t, fmt.Sprintf("%s has no network with %s", side.at.Name, side.peer.Name),
			func(ctx context.Context) error {
				for _, list := range []kube.ObjectList{
					&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{}, &corev1.SecretList{},
				} {
					if err := side.at.Objects.List(ctx, list, kube.MatchingLabels{"liqo.io/remote-cluster-id": side.peer.Name,
						"app.kubernetes.io/managed-by": "bourse"}); err != nil {
						return err
					}
					for _, name := range namesIn(list) {
						if name != "liqo-nonce" && name != "liqo-signed-nonce" {
							return fmt.Errorf("%T: %s", list, name)
						}
					}
				}
				return nil
			})
	}
}

// restart kills an agent, and starts it again.
func (w *world) restart(t *testing.T, m *federation.Member) {
	t.Helper()
	m.Agent(0).Kill()
	if _, err := m.StartAgent(0); err != nil {
		t.Fatal(err)
	}
}

// confinedToItsNetworks checks that an attacker with the agent's ServiceAccount cannot write a
// network made by hand.
func (w *world) confinedToItsNetworks(t *testing.T, at *federation.Member) {
	t.Helper()
	config, err := at.Cluster.ServiceAccount(t.Context(), api.Namespace, "bourse-agent")
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	configuration := func(name string) *networkingv1beta1.Configuration {
		return &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	hand := configuration("by-hand")
	if err := at.Objects.Create(t.Context(), hand); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Objects.Delete(context.Background(), hand) }()
	for what, err := range map[string]error{
		"makes one as if by hand": c.Create(t.Context(), configuration("other"), kube.DryRunAll),
		"takes over one made by hand": c.Patch(t.Context(), configuration("by-hand"),
			kube.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"bourse"}}}`)), kube.DryRunAll),
		"deletes one made by hand": c.Delete(t.Context(), configuration("by-hand"), kube.DryRunAll),
		"reads the keys of another one's gateway": c.Get(t.Context(),
			kube.ObjectKey{Namespace: "default", Name: "gw-by-hand"}, &corev1.Secret{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("an agent that %s: %v", what, err)
		}
	}
}

// A request with a network: each side makes its half of what the other says, the provider's gateway
// is the one that is dialled, and the reservation is Active once the tunnel stands. When the last
// that asks for it ends, the network goes, and the peering stays for the others.
func TestNetwork(t *testing.T) {
	w := start(t)
	reserves(t, w.rome, "10.60.0.0/16", "10.70.0.0/16")
	reserves(t, w.milan, "10.61.0.0/16", "10.71.0.0/16")
	rome := &dataPlane{w, t, w.rome, w.milan, "10.81.0.0/16", ""}
	milan := &dataPlane{w, t, w.milan, w.rome, "10.80.0.0/16", ""}
	a := w.askConnected(t, w.rome, w.milan, "connected")
	rome.maps("10.61.0.0/16")
	milan.maps("10.60.0.0/16")
	w.restart(t, w.milan)
	milan.serves(corev1.ServiceTypeNodePort, "192.0.2.1")
	rome.dials("192.0.2.1")
	rome.trusts()
	milan.trusts()
	a.networkIs(metav1.ConditionFalse, "Tunnel")
	if a.request.Status.State != api.Reserved {
		t.Errorf("without a tunnel it is %s", a.request.Status.State)
	}
	rome.connects(networkingv1beta1.ConnectionTypeClient)
	milan.connects(networkingv1beta1.ConnectionTypeServer)
	a.becomes(api.Active)
	a.networkIs(metav1.ConditionTrue, "Connected")

	eventually(t, "milan's guard lets rome's pods in, and no others", func(ctx context.Context) error {
		var p networkingv1.NetworkPolicy
		err := w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: "connected-rome", Name: "bourse"}, &p)
		if err == nil && (len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 3 ||
			p.Spec.Ingress[0].From[1].IPBlock.CIDR != "10.80.0.0/16") {
			err = fmt.Errorf("it lets in %+v", p.Spec.Ingress)
		}
		return err
	})
	hostile := w.as(t, w.rome, w.milan, "kubeconfig-controlplane-milan")
	for _, o := range []kube.Object{
		&networkingv1beta1.Configuration{ObjectMeta: milan.name()}, &networkingv1beta1.GatewayServer{ObjectMeta: milan.name()}, &networkingv1beta1.PublicKey{ObjectMeta: milan.name()},
	} {
		if err := hostile.Delete(t.Context(), o); !apierrors.IsForbidden(err) {
			t.Errorf("rome deletes milan's %T: %v", o, err)
		}
	}

	w.confinedToItsNetworks(t, w.milan)
	beside := w.ask(t, w.rome, w.milan, "unconnected", amounts("1", "1Gi"))
	beside.becomes(api.Active)
	a.release()
	w.restart(t, w.rome)
	w.noNetworkLeft(t, w.rome, w.milan)
	beside.becomes(api.Active)
	beside.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// Where the provider's gateway cannot be reached, the consumer's is the one that is dialled.
func TestNetworkOfAProviderThatOnlyDials(t *testing.T) {
	w := start(t)
	reserves(t, w.rome, "10.60.0.0/16", "10.70.0.0/16")
	reserves(t, w.paris, "10.62.0.0/16", "10.72.0.0/16")
	rome := &dataPlane{w, t, w.rome, w.paris, "10.82.0.0/16", ""}
	paris := &dataPlane{w, t, w.paris, w.rome, "10.80.0.0/16", ""}
	a := w.askConnected(t, w.rome, w.paris, "dialled")
	rome.maps("10.62.0.0/16")
	paris.maps("10.60.0.0/16")
	rome.serves(corev1.ServiceTypeLoadBalancer, "192.0.2.2")
	paris.dials("192.0.2.2")
	rome.trusts()
	paris.trusts()
	a.networkIs(metav1.ConditionFalse, "Tunnel")
	a.release() // before it was Active
	w.noNetworkLeft(t, w.rome, w.paris)
	w.nothingLeft(t, w.rome, w.paris)
}
