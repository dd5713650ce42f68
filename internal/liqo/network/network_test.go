package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// side is one of two clusters, with the part of Liqo played by the test.
type side struct {
	*network.Network
	t    *testing.T
	peer string
	said map[api.PeeringRole]*api.HandshakeNetwork // to the peer, of the peering in which that is the peer's role
}

func newSide(t *testing.T, name, peer, pods string, gateway network.Gateway) *side {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, liqo.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	types := []kubeapi.Type{
		{GroupVersion: ipamv1alpha1.SchemeGroupVersion, Kind: "Network",
			Resource: "networks", Namespaced: true, Status: true},
		{GroupVersion: ipamv1alpha1.SchemeGroupVersion, Kind: "IP", Resource: "ips", Namespaced: true, Status: true},
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Service", Resource: "services", Namespaced: true},
	}
	for kind, resource := range map[string]string{
		"Configuration": "configurations", "GatewayServer": "gatewayservers", "GatewayClient": "gatewayclients", "PublicKey": "publickeies", "Connection": "connections",
	} {
		types = append(types, kubeapi.Type{GroupVersion: networkingv1beta1.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: true, Status: kind != "PublicKey"})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: types}).Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &side{&network.Network{Client: c, Reader: c, Cluster: name, LiqoNamespace: "liqo", Gateway: gateway},
		t, peer, map[api.PeeringRole]*api.HandshakeNetwork{}}
	s.must(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}))
	s.must(c.Create(t.Context(), liqo.NewTenantNamespace(peer)))
	for kind, cidr := range map[string]string{"pod-cidr": pods,
		"external-cidr": "10.70.0.0/16", "service-cidr": "10.96.0.0/16"} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
			Name: kind, Labels: map[string]string{"ipam.liqo.io/network-type": kind}}}
		n.Spec.CIDR = networkingv1beta1.CIDR(cidr)
		s.must(c.Create(t.Context(), n))
		n.Status.CIDR = n.Spec.CIDR
		s.must(c.Status().Update(t.Context(), n))
	}
	return s
}

func (s *side) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// looks lets the side do what it can, with what the other said last, as JSON has it.
func (s *side) looks(role api.PeeringRole, network *api.HandshakeNetwork) network.State {
	s.t.Helper()
	text, err := json.Marshal(network)
	s.must(err)
	var copied *api.HandshakeNetwork
	s.must(json.Unmarshal(text, &copied))
	again := *s.Network // nothing is kept from one look to the next
	state, err := again.Ensure(s.t.Context(), s.peer, role, copied)
	s.must(err)
	if state.Say != nil {
		s.said[role] = state.Say
	}
	s.liqo()
	return state
}

// liqo does what Liqo's controllers would: it maps addresses, and gives gateways an endpoint.
func (s *side) liqo() {
	s.t.Helper()
	var configurations networkingv1beta1.ConfigurationList
	s.must(s.List(s.t.Context(), &configurations))
	for _, c := range configurations.Items {
		c.Status.Remote = c.Spec.Remote.DeepCopy()
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: c.Generation,
		})
		s.must(s.Status().Update(s.t.Context(), &c))
	}
	for _, g := range s.servers() {
		g.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Port: 30840}
		s.must(s.Status().Update(s.t.Context(), &g))
	}
}

func (s *side) servers() []networkingv1beta1.GatewayServer {
	var list networkingv1beta1.GatewayServerList
	s.must(s.List(s.t.Context(), &list))
	return list.Items
}

func (s *side) clients() []networkingv1beta1.GatewayClient {
	var list networkingv1beta1.GatewayClientList
	s.must(s.List(s.t.Context(), &list))
	return list.Items
}

// left are the objects of the network that are there.
func (s *side) left() (n int) {
	s.t.Helper()
	for _, list := range []client.ObjectList{
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{}, &corev1.SecretList{},
	} {
		s.must(s.List(s.t.Context(), list))
		n += meta.LenList(list)
	}
	return n
}

// talk has the two look in turns, in these roles of the other to each.
func talk(consumer, provider *side, times int) (c, p network.State) {
	for range times {
		c = consumer.looks(api.RoleProvider, provider.said[api.RoleConsumer])
		p = provider.looks(api.RoleConsumer, consumer.said[api.RoleProvider])
	}
	return c, p
}

func pair(t *testing.T, consumer, provider network.Gateway) (*side, *side) {
	return newSide(t, "rome", "milan", "10.60.0.0/16", consumer), newSide(t, "milan", "rome", "10.61.0.0/16", provider)
}

// Liqo's gateway is not told to dial an address that this cluster calls for nobody.
func TestAGatewayThatIsNotDialled(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayNodePort)
	rome.Allows = func(_ context.Context, host string) error {
		return api.Errorf(api.CodeUnreachable, "%s is not called", host)
	}
	if atRome, _ := talk(rome, milan, 5); atRome.Reason != string(api.CodeUnreachable) || len(rome.clients()) != 0 {
		t.Errorf("it says %+v, and dials %+v", atRome, rome.clients())
	}
}

// Who can be reached has the gateway that is dialled, the provider rather than the consumer; each
// side has the other's addresses and public key, and the Connection says when it is ready.
func TestWhoIsDialled(t *testing.T) {
	for _, c := range []struct {
		consumer, provider network.Gateway
		dialled            string
	}{
		{network.GatewayOutbound, network.GatewayNodePort, "provider"},
		{network.GatewayLoadBalancer, network.GatewayLoadBalancer, "provider"},
		{network.GatewayNodePort, network.GatewayOutbound, "consumer"},
	} {
		rome, milan := pair(t, c.consumer, c.provider)
		atRome, atMilan := talk(rome, milan, 5)
		if atRome.Ready || atMilan.Ready || atRome.Reason != "Tunnel" || !atRome.Configured {
			t.Errorf("%v: before the tunnel is up: %+v and %+v", c, atRome, atMilan)
		}
		server, dials := milan, rome
		if c.dialled == "consumer" {
			server, dials = rome, milan
		}
		if len(server.servers()) != 1 || len(server.clients()) != 0 ||
			len(dials.servers()) != 0 || len(dials.clients()) != 1 {
			t.Fatalf("%v: not the %s is dialled", c, c.dialled)
		}
		if e := dials.clients()[0].Spec.Endpoint; len(e.Addresses) != 1 ||
			e.Addresses[0] != "192.0.2.1" || e.Port != 30840 || *e.Protocol != corev1.ProtocolUDP {
			t.Errorf("%v: it dials %+v", c, e)
		}
		for _, s := range []struct{ at, of *side }{{rome, milan}, {milan, rome}} {
			var key networkingv1beta1.PublicKey
			var own corev1.Secret
			at := client.ObjectKey{Namespace: "liqo-tenant-" + s.at.peer, Name: s.at.peer}
			s.at.must(s.at.Get(t.Context(), at, &key))
			s.at.must(s.of.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + s.of.peer,
				Name: "bourse-gateway"}, &own))
			if len(key.Spec.PublicKey) != 32 || !bytes.Equal(key.Spec.PublicKey, own.Data["publicKey"]) ||
				len(own.Data["privateKey"]) != 32 {
				t.Errorf("%v: %s has another key of %s", c, s.at.Cluster, s.at.peer)
			}
			connection := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace,
				Name: "gw", Labels: map[string]string{"liqo.io/remote-cluster-id": s.at.peer}}}
			s.at.must(s.at.Create(t.Context(), connection))
			connection.Status.Value = networkingv1beta1.Connected
			s.at.must(s.at.Status().Update(t.Context(), connection))
		}
		if atRome, atMilan = talk(rome, milan, 1); !atRome.Ready || !atMilan.Ready {
			t.Errorf("%v: with the tunnel: %+v and %+v", c, atRome, atMilan)
		}
		// An agent that has just started has heard nothing.
		if s := milan.looks(api.RoleConsumer, nil); !s.Ready {
			t.Errorf("%v: after a restart: %+v", c, s)
		}
	}
}

// Where neither can be reached nothing is dialled, and both say why.
func TestNobodyCanBeReached(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayOutbound)
	atRome, atMilan := talk(rome, milan, 4)
	if atRome.Reason != string(api.CodeNoNetwork) || atMilan.Reason != string(api.CodeNoNetwork) {
		t.Errorf("%+v and %+v", atRome, atMilan)
	}
	if len(rome.servers())+len(milan.servers()) > 0 {
		t.Error("a gateway server exists")
	}
}

// Two clusters that lend to each other have one network with one server; it stays until neither direction
// needs it.
func TestBothDirections(t *testing.T) {
	rome, milan := pair(t, network.GatewayLoadBalancer, network.GatewayLoadBalancer)
	for range 6 { // both begin at once, each as the provider of one direction
		for _, s := range []struct{ at, other *side }{{rome, milan}, {milan, rome}} {
			s.at.looks(api.RoleConsumer, s.other.said[api.RoleProvider])
			s.at.looks(api.RoleProvider, s.other.said[api.RoleConsumer])
		}
	}
	if len(rome.servers())+len(milan.servers()) != 1 || len(rome.clients())+len(milan.clients()) != 1 {
		t.Fatalf("%d and %d servers, %d and %d clients", len(rome.servers()),
			len(milan.servers()), len(rome.clients()), len(milan.clients()))
	}
	had := rome.left()
	if gone, err := rome.Remove(t.Context(), "milan", api.RoleProvider, true); err != nil || !gone || rome.left() != had {
		t.Errorf("what the other direction needs is removed: %t, %v, %d of %d left", gone, err, rome.left(), had)
	}
	if needed, err := rome.Needed(t.Context(), "milan", api.RoleProvider); err != nil || needed {
		t.Errorf("it is still needed: %v", err)
	}
	rome.ends(api.RoleConsumer)
}

// ends removes the network, and wants nothing left.
func (s *side) ends(role api.PeeringRole) {
	s.t.Helper()
	for range 10 {
		if gone, err := s.Remove(s.t.Context(), s.peer, role, true); err != nil || gone {
			s.must(err)
			break
		}
	}
	if n := s.left(); n > 0 {
		s.t.Errorf("%s: %d objects are left", s.Cluster, n)
	}
}

// The Configuration is the memory of a network that ends: it goes when the other side has confirmed
// the end, not before.
func TestTheEndIsConfirmed(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayNodePort)
	talk(rome, milan, 5)
	for range 10 {
		if gone, err := rome.Remove(t.Context(), "milan", api.RoleProvider, false); err != nil || gone {
			t.Fatalf("gone without a word of milan: %v", err)
		}
	}
	if needed, err := rome.Needed(t.Context(), "milan", api.RoleProvider); err != nil || !needed || rome.left() != 1 {
		t.Errorf("%d objects are left, %t, %v", rome.left(), needed, err)
	}
	rome.ends(api.RoleProvider)
	milan.ends(api.RoleConsumer)
}

// A network that somebody else made is looked at, and never written.
func TestMadeByHand(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayNodePort)
	c := network.NewConfiguration("liqo-tenant-milan", "milan", &api.HandshakeNetwork{PodCIDRs: []string{"10.99.0.0/16"}})
	c.Labels = map[string]string{"liqo.io/remote-cluster-id": "milan"}
	rome.must(rome.Create(t.Context(), c))
	milan.looks(api.RoleConsumer, &api.HandshakeNetwork{PodCIDRs: []string{"10.60.0.0/16"}})
	s := rome.looks(api.RoleProvider, milan.said[api.RoleConsumer])
	if s.Say != nil || s.Reason != "Tunnel" || rome.left() != 1 {
		t.Errorf("%+v, and %d objects", s, rome.left())
	}
	if gone, err := rome.Remove(t.Context(), "milan", api.RoleProvider, true); err != nil || !gone || rome.left() != 1 {
		t.Errorf("removed: %t, %v, %d objects", gone, err, rome.left())
	}
}

// Nothing is made of what cannot be the network of an honest cluster.
func TestHostileNetworks(t *testing.T) {
	for name, change := range map[string]func(*api.HandshakeNetwork){
		"everything":              func(h *api.HandshakeNetwork) { h.PodCIDRs = []string{"0.0.0.0/0"} },
		"somebody's public one":   func(h *api.HandshakeNetwork) { h.ExternalCIDRs = []string{"8.8.8.0/24"} },
		"more than a private one": func(h *api.HandshakeNetwork) { h.PodCIDRs = []string{"10.0.0.0/7"} },
		"where clouds keep keys":  func(h *api.HandshakeNetwork) { h.PodCIDRs = []string{"169.254.169.254/32"} },
		"an address in a network": func(h *api.HandshakeNetwork) { h.PodCIDRs = []string{"10.1.2.3/16"} },
		"no network":              func(h *api.HandshakeNetwork) { h.PodCIDRs = []string{"x"} },
		"nothing":                 func(h *api.HandshakeNetwork) { h.PodCIDRs = nil },
		"too many":                func(h *api.HandshakeNetwork) { h.PodCIDRs = make([]string, 17) },
		"a key of another length": func(h *api.HandshakeNetwork) { h.PublicKey = []byte("short") },
		"a proxy without port":    func(h *api.HandshakeNetwork) { h.Proxy = &api.HandshakeEndpoint{Addresses: []string{"10.70.0.3"}} },
		"proxies": func(h *api.HandshakeNetwork) {
			h.Proxy = &api.HandshakeEndpoint{Addresses: []string{"10.70.0.3", "10.70.0.4"}, Port: 1}
		},
		"an endpoint without port": func(h *api.HandshakeNetwork) {
			h.Endpoint = &api.HandshakeEndpoint{Addresses: []string{"192.0.2.1"}, Protocol: "UDP"}
		},
		"an endpoint of no name": func(h *api.HandshakeNetwork) {
			h.Endpoint = &api.HandshakeEndpoint{Addresses: []string{"a b"}, Port: 1, Protocol: "UDP"}
		},
		"an endpoint of another protocol": func(h *api.HandshakeNetwork) {
			h.Endpoint = &api.HandshakeEndpoint{Addresses: []string{"192.0.2.1"}, Port: 1, Protocol: "SCTP"}
		},
	} {
		milan := newSide(t, "milan", "rome", "10.61.0.0/16", network.GatewayNodePort)
		network := &api.HandshakeNetwork{PodCIDRs: []string{"10.60.0.0/16"},
			ExternalCIDRs: []string{"10.70.0.0/16"}, PublicKey: make([]byte, 32)}
		change(network)
		if s := milan.looks(api.RoleConsumer, network); s.Reason != string(api.CodeBadSignature) || milan.left() > 0 {
			t.Errorf("%s: %+v, and %d objects", name, s, milan.left())
		}
	}
}

// cached lists what an agent's cache holds of nodes: the virtual ones.
type cached struct{ client.Client }

func (c cached) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*corev1.NodeList); ok {
		o = append(o, client.MatchingLabels(liqo.VirtualNodes()))
	}
	return c.Client.List(ctx, list, o...)
}

// A peer may not have the addresses of this cluster's nodes. A virtual node has that of a pod, which is mapped.
func TestNodesInThePeersAddresses(t *testing.T) {
	heard := &api.HandshakeNetwork{PodCIDRs: []string{"10.60.0.0/16"},
		ExternalCIDRs: []string{"10.70.0.0/16"}, PublicKey: make([]byte, 32)}
	for address, refused := range map[string]bool{"10.60.0.9": true, "10.70.0.9": true, "10.61.0.9": false} {
		milan := newSide(t, "milan", "rome", "10.61.0.0/16", network.GatewayNodePort)
		milan.Client = cached{milan.Client}
		for name, labels := range map[string]map[string]string{"n": nil, "b-general": liqo.VirtualNodes()} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
			milan.must(milan.Create(t.Context(), node))
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.60.0.8"}}
			if labels == nil {
				node.Status.Addresses[0].Address = address
			}
			milan.must(milan.Status().Update(t.Context(), node))
		}
		s := milan.looks(api.RoleConsumer, heard)
		if was := s.Reason == string(api.CodeBadSignature) && strings.Contains(s.Message, "node n "); was != refused {
			t.Errorf("with a node at %s: %+v", address, s)
		}
	}
}
