package peeraddress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/bourse-dev/bourse/api"
)

// loopback allows this machine, too.
func loopback() *Checker {
	return New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

// Another cluster cannot make this one call itself, its own pods and services, or the metadata of a cloud.
// It can name every other address.
func TestAddressesOfOthers(t *testing.T) {
	own := New(Options{Log: slog.New(slog.DiscardHandler), Kubernetes: fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.3.0/24", "fd00:10::/64"}}},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
	)})
	own.ReadRanges(t.Context())
	for _, text := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0",
		"224.0.0.1", "ff02::1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "10.96.0.1", "10.111.255.255", "10.244.3.7", "fd00:10::1", "::ffff:10.96.0.10",
		"64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1::a60:1", "64:ff9b::a60:1", "::ffff:0:a9fe:a9fe", "::ffff:0:a60:1", "2001:0:a9fe:a9fe::1",
		"fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:42::42",
	} {
		if err := own.CheckAddress(netip.MustParseAddr(text)); api.CodeOf(err) != api.CodeUnreachable ||
			!strings.Contains(err.Error(), "--allow-peer-range") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"192.168.1.1", "10.0.0.1", "172.16.0.1",
		"100.64.0.1", "203.0.113.5", "fd12::1", "2001:db8::1", "10.244.4.1", "64:ff9b::cb00:7105"} {
		if err := own.CheckAddress(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	ranges, err := ParseRanges([]string{"127.0.0.0/8", "10.96.0.0/12"})
	if err != nil {
		t.Fatal(err)
	}
	allowed := New(Options{Allow: ranges})
	allowed.own.Store(own.own.Load())
	if err := allowed.CheckAddress(netip.MustParseAddr("10.96.0.10")); err != nil {
		t.Errorf("what the admin allows: %v", err)
	}
	if err := allowed.CheckAddress(netip.MustParseAddr("169.254.169.254")); err == nil {
		t.Error("what the admin did not allow is called")
	}
	if _, err := ParseRanges([]string{"everything"}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("no range: %v", err)
	}
}

// Liqo receives addresses that may be called, and names that resolve to such addresses: no number in another
// spelling, no name of this machine, and no name that does not resolve here, unless the admin allows all.
func TestHostsOfOthers(t *testing.T) {
	for _, host := range []string{
		"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "10.0.0.0x1", "1.2.3.4.", "localhost", "LOCALHOST", "localhost.", "db.localhost", "db.localhost.", "nothing.invalid", "", ".",
	} {
		if err := New(Options{}).CheckHost(t.Context(), host); api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("%q: %v", host, err)
		}
	}
	for host, o := range map[string]*Checker{"localhost": loopback(),
		"nothing.invalid": Anywhere(), "203.0.113.5": New(Options{}), "2001:db8::1": New(Options{})} {
		if err := o.CheckHost(t.Context(), host); err != nil {
			t.Errorf("%q, which may be called: %v", host, err)
		}
	}
	if err := loopback().CheckHost(t.Context(), "nothing.invalid"); err == nil ||
		!strings.Contains(err.Error(), "stands for no address here") {
		t.Errorf("it does not say why: %v", err)
	}
}

// A connection is made to a server that speaks TLS, and not to this machine unless the admin allows it.
func TestDialTLS(t *testing.T) {
	https, plain := httptest.NewTLSServer(nil), httptest.NewServer(nil)
	defer https.Close()
	defer plain.Close()
	if err := loopback().DialTLS(t.Context(), https.URL); err != nil {
		t.Errorf("a server with TLS: %v", err)
	}
	if err := loopback().DialTLS(t.Context(), "https://"+plain.Listener.Addr().String()); err == nil {
		t.Error("a server without TLS answers by TLS")
	}
	for _, url := range []string{plain.URL, "https://", "https://[::1"} {
		if err := loopback().DialTLS(t.Context(), url); api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := New(Options{}).DialTLS(t.Context(), https.URL); err == nil ||
		!strings.Contains(err.Error(), "--allow-peer-range") {
		t.Errorf("this machine is called: %v", err)
	}
}

// An API server is called at an address of IPv6, in the URL that Kubernetes writes, if the admin allows the range.
func TestDialTLSByIPv6(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no loopback of IPv6: ", err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	ranges, err := ParseRanges([]string{"::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Checker{New(Options{Allow: ranges}), Anywhere()} {
		if err := c.DialTLS(t.Context(), server.URL); err != nil {
			t.Errorf("%s: %v", server.URL, err)
		}
	}
	for _, c := range []*Checker{New(Options{}), loopback()} {
		err := c.DialTLS(t.Context(), server.URL)
		if err == nil || !strings.Contains(err.Error(), "--allow-peer-range ::1/128") {
			t.Errorf("%s is called: %v", server.URL, err)
		}
	}
}

// Ranges that could not be read are read again after a minute, and those that are known after an hour.
func TestRunReadsRangesAgain(t *testing.T) {
	cluster, now := fake.NewClientset(), testclock.NewFakeClock(time.Now())
	failing := atomic.Bool{}
	failing.Store(true)
	reads := make(chan struct{}, 10)
	cluster.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		fails := failing.Load() // before the test learns of this read and changes it
		reads <- struct{}{}
		if fails {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	c := New(Options{Kubernetes: cluster, Clock: now, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	step := func(by time.Duration) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !now.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not wait")
			}
		}
		now.Step(by)
		<-reads
	}
	step(retryEvery)
	failing.Store(false)
	step(retryEvery)
	if _, err := cluster.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: corev1.NodeSpec{PodCIDRs: []string{"10.9.0.0/24"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	step(readEvery)
	for end := time.Now().Add(30 * time.Second); c.CheckAddress(netip.MustParseAddr("10.9.0.1")) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the range of a new node is not refused")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
