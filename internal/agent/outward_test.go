package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bourse-dev/bourse/api"
)

// Another cluster cannot have this one call itself, its own pods and services, or what a cloud tells machines; it can name whatever else there is.
func TestAddressesOfOthers(t *testing.T) {
	own := &outward{}
	own.learn(t.Context(), fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.3.0/24", "fd00:10::/64"}}},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
	), slog.New(slog.DiscardHandler))
	for _, text := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0",
		"224.0.0.1", "ff02::1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "10.96.0.1", "10.111.255.255", "10.244.3.7", "fd00:10::1", "::ffff:10.96.0.10",
		"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1::a60:1", "64:ff9b::a60:1", "::ffff:0:a9fe:a9fe", "::ffff:0:a60:1", "2001:0:a9fe:a9fe::1",
		"fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:42::42",
	} {
		if err := own.check(netip.MustParseAddr(text)); api.CodeOf(err) != api.CodeUnreachable || !strings.Contains(err.Error(), "--allow-peer-range") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"192.168.1.1", "10.0.0.1", "172.16.0.1", "100.64.0.1", "203.0.113.5", "fd12::1", "2001:db8::1", "10.244.4.1", "64:ff9b::cb00:7105"} {
		if err := own.check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	allowed, err := newOutward([]string{"127.0.0.0/8", "10.96.0.0/12"})
	if err != nil {
		t.Fatal(err)
	}
	allowed.own.Store(own.own.Load())
	if err := allowed.check(netip.MustParseAddr("10.96.0.10")); err != nil {
		t.Errorf("what the admin allows: %v", err)
	}
	if err := allowed.check(netip.MustParseAddr("169.254.169.254")); err == nil {
		t.Error("what the admin did not allow is called")
	}
	if _, err := newOutward([]string{"everything"}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("no range: %v", err)
	}
}

// What Liqo is given to call is an address that may be called, or a name that stands for such ones: no number in another spelling, no name of this
// machine, and no name that stands for nothing here, unless the admin allows all.
func TestHostsOfOthers(t *testing.T) {
	for _, host := range []string{
		"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "10.0.0.0x1", "1.2.3.4.", "localhost", "LOCALHOST", "localhost.", "db.localhost", "db.localhost.", "nothing.invalid", "", ".",
	} {
		if err := (&outward{}).checkHost(t.Context(), host); api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("%q: %v", host, err)
		}
	}
	for host, o := range map[string]*outward{"localhost": loopback(t), "nothing.invalid": anywhere, "203.0.113.5": {}, "2001:db8::1": {}} {
		if err := o.checkHost(t.Context(), host); err != nil {
			t.Errorf("%q, which may be called: %v", host, err)
		}
	}
	if err := loopback(t).checkHost(t.Context(), "nothing.invalid"); err == nil || !strings.Contains(err.Error(), "stands for no address here") {
		t.Errorf("it does not say why: %v", err)
	}
}

// A card's API server on this machine is not dialled: neither by its address nor by a name that stands for it; and what is refused says nothing of what is there.
func TestACardNamesAnAddressOfOurs(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(nil)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	i := &installed{dials: map[string]dial{}, out: &outward{}, log: slog.New(slog.DiscardHandler)}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		url := "https://" + net.JoinHostPort(strings.Trim(host, "[]"), port)
		err := i.reach(t.Context(), &api.Card{Cluster: "milan", Properties: api.Properties{APIServer: url}}, api.Request{})
		if api.CodeOf(err) != api.CodeUnreachable || !strings.Contains(err.Error(), "another cluster names it") {
			t.Errorf("%s: %v", url, err)
		}
		if err := i.out.checkURL(t.Context(), url); api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("what Liqo would call, %s: %v", url, err)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A provider whose card names one address after another is dialled a few times, and learns of none what is there.
func TestACardScansPorts(t *testing.T) {
	i := &installed{dials: map[string]dial{}, out: loopback(t), log: slog.New(slog.DiscardHandler)}
	plain := httptest.NewServer(nil)
	defer plain.Close()
	said := map[string]bool{}
	at := func(url string) string {
		err := i.reach(context.Background(), &api.Card{Cluster: "milan", Properties: api.Properties{APIServer: url}}, api.Request{})
		if api.CodeOf(err) != api.CodeUnreachable {
			t.Fatalf("%s: %v", url, err)
		}
		return strings.ReplaceAll(err.Error(), url, "")
	}
	said[at("https://"+plain.Listener.Addr().String())] = true
	said[at("https://127.0.0.1:1")] = true
	if len(said) != 1 {
		t.Errorf("it says what is there: %v", said)
	}
	for port := 2; len(i.dials) < dialsAtOnce+5; port++ {
		before := len(i.dials)
		if at("https://" + net.JoinHostPort("127.0.0.1", string(rune('0'+port%10))) + "/" + strings.Repeat("x", port)); len(i.dials) == before {
			return
		}
	}
	t.Errorf("%d addresses are dialled", len(i.dials))
}
