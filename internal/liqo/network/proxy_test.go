package network_test

import (
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/network"
)

// tunnel makes the tunnel stand, or not, as Liqo says it.
func (s *side) tunnel(value networkingv1beta1.ConnectionStatusValue) {
	s.t.Helper()
	c := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + s.peer,
		Name: "gw", Labels: map[string]string{"liqo.io/remote-cluster-id": s.peer}}}
	if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		s.must(s.Create(s.t.Context(), c))
	}
	c.Status.Value = value
	s.must(s.Status().Update(s.t.Context(), c))
}

// maps changes the addresses that Liqo here uses for the peer's external ones.
func (s *side) maps(external ...networkingv1beta1.CIDR) {
	s.t.Helper()
	var c networkingv1beta1.Configuration
	s.must(s.Get(s.t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + s.peer, Name: s.peer}, &c))
	c.Status.Remote = c.Spec.Remote.DeepCopy()
	c.Status.Remote.CIDR.External = external
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: c.Generation,
	})
	s.must(s.Status().Update(s.t.Context(), &c))
}

// A provider finds Liqo's proxy where Liqo's chart puts it, and says so in an error where it is not.
func TestProxy(t *testing.T) {
	milan := newSide(t, "milan", "rome", "10.61.0.0/16", network.GatewayNodePort)
	none := func(what string) {
		t.Helper()
		if p, err := milan.Proxy(t.Context()); api.CodeOf(err) != api.CodeUnavailable || p != nil {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
	none("nothing")
	milan.must(milan.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-proxy",
			Labels: map[string]string{"app.kubernetes.io/name": "proxy"}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8118}}},
	}))
	none("a Service without an IP")
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
		Name: "api-server-proxy", Labels: map[string]string{"ipam.liqo.io/ip-type": "api-server-proxy"}}}
	milan.must(milan.Create(t.Context(), ip))
	for _, address := range []string{"192-0-2-1", "192-0-2-2"} { // of the API server itself, by its EndpointSlices
		other := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "kubernetes-" + address,
			Labels: map[string]string{"ipam.liqo.io/ip-type": "api-server"}}}
		milan.must(milan.Create(t.Context(), other))
		other.Status.IP = "10.70.0.9"
		milan.must(milan.Status().Update(t.Context(), other))
	}
	none("an IP that Liqo's IPAM has not seen")
	ip.Status.IP = "10.70.0.3"
	milan.must(milan.Status().Update(t.Context(), ip))
	if p, err := milan.Proxy(t.Context()); err != nil || len(p.Addresses) != 1 ||
		p.Addresses[0] != "10.70.0.3" || p.Port != 8118 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A consumer reckons by itself where in the network a provider's proxy is, and has no answer while
// the tunnel is down.
func TestProxyOf(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayNodePort)
	talk(rome, milan, 5)
	at := func(address string, port int32) *api.HandshakeNetwork {
		heard := *milan.said[api.RoleConsumer]
		heard.Proxy = &api.HandshakeEndpoint{Addresses: []string{address}, Port: port}
		return &heard
	}
	is := func(what string, network *api.HandshakeNetwork, want string, code api.Code) {
		t.Helper()
		got, err := rome.ProxyOf(t.Context(), "milan", network)
		if got != want || (err == nil) != (code == "") || err != nil && api.CodeOf(err) != code {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	is("no tunnel yet", at("10.70.0.3", 8118), "", "")
	rome.tunnel(networkingv1beta1.Connected)
	is("not mapped", at("10.70.0.3", 8118), "http://10.70.0.3:8118", "")
	rome.maps("10.81.0.0/16")
	is("mapped", at("10.70.200.3", 8118), "http://10.81.200.3:8118", "")
	rome.maps("10.81.16.0/20")
	is("mapped to less", at("10.70.200.3", 8118), "", api.CodeBadSignature)
	rome.maps("fd00::/16")
	is("mapped to another family", at("10.70.200.3", 8118), "", api.CodeBadSignature)
	rome.maps()
	is("mapped to nothing", at("10.70.200.3", 8118), "", api.CodeBadSignature)
	rome.maps("10.81.0.0/16")
	is("a pod of milan's", at("10.61.0.3", 8118), "", api.CodeBadSignature)
	is("what is rome's own", at("10.96.0.1", 443), "", api.CodeBadSignature)
	is("where clouds keep keys", at("169.254.169.254", 80), "", api.CodeBadSignature)
	is("no address", at("milan.example", 80), "", api.CodeBadSignature)
	is("no port", at("10.70.0.3", 0), "", api.CodeBadSignature)
	is("nothing said", milan.said[api.RoleConsumer], "", "")
	is("nothing heard", nil, "", "")
	over := at("10.70.0.3", 8118)
	over.Over = true
	is("over", over, "", "")
	rome.tunnel(networkingv1beta1.ConnectionError)
	is("the tunnel is down", at("10.70.0.3", 8118), "", "")
}

// That a peering runs through the network is remembered with it, in its direction alone.
func TestCarries(t *testing.T) {
	rome, milan := pair(t, network.GatewayOutbound, network.GatewayNodePort)
	is := func(role api.PeeringRole, want bool) {
		t.Helper()
		if carries, err := rome.Carries(t.Context(), "milan", role); err != nil || carries != want {
			t.Errorf("as %s: %t, %v", role, carries, err)
		}
	}
	rome.must(rome.Carry(t.Context(), "milan", api.RoleProvider)) // before there is one
	is(api.RoleProvider, false)
	talk(rome, milan, 5)
	is(api.RoleProvider, false)
	rome.must(rome.Carry(t.Context(), "milan", api.RoleProvider))
	talk(rome, milan, 2)
	is(api.RoleProvider, true)
	is(api.RoleConsumer, false)
	if needed, err := rome.Needed(t.Context(), "milan", api.RoleProvider); err != nil || !needed {
		t.Errorf("it is not needed: %v", err)
	}
	rome.ends(api.RoleProvider)
	is(api.RoleProvider, false)
}
