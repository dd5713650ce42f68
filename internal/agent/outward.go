package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/api"
)

// outward calls addresses that others name: those of API servers, connectors and gateways, as cards and handshakes have them. It calls none by
// which another cluster would have this one call itself: its own machine, its own pods and services, or what its cloud tells machines. Private
// networks of a company are no such addresses. The zero outward has no ranges of a cluster.
type outward struct {
	allow []netip.Prefix                 // by the admin's word
	own   atomic.Pointer[[]netip.Prefix] // of this cluster's pods and services
}

// newOutward reads the ranges that the admin allows. Errors: Invalid with the flag.
func newOutward(ranges []string) (*outward, error) {
	o := &outward{}
	for _, text := range ranges {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, api.Invalid("--allow-peer-range", "%.80q is not a range of addresses", text).Fix("write one like 10.96.0.0/16")
		}
		o.allow = append(o.allow, p.Masked())
	}
	return o, nil
}

// anywhere is for addresses that this cluster's own admin names.
var anywhere = &outward{allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// metadata is where clouds tell machines who they are, beside link-local addresses: Alibaba, Azure, Oracle, AWS, Google, Scaleway.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("fd00:ec2::23/128"), netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:42::42/128"),
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	translated  = netip.MustParsePrefix("64:ff9b::/96") // NAT64: an address of IPv4 is in the end of it
	compatible  = netip.MustParsePrefix("::/96")
	stateless   = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT
	sixToFour   = netip.MustParsePrefix("2002::/16")       // an address of IPv4 is in the middle of it
	// hidden lead to addresses of IPv4 that nobody can tell from outside: of the local NAT64 each network chooses where they are, Teredo's go through a relay.
	hidden = []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32")}
)

// within is the address of IPv4 that an address of IPv6 leads to, or itself.
func within(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || a.IsLoopback() || a.IsUnspecified() {
		return a
	}
	bytes := a.As16()
	switch {
	case translated.Contains(a), compatible.Contains(a), stateless.Contains(a):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return a
}

// check says why an address is not called. Errors: Unreachable.
func (o *outward) check(a netip.Addr) error {
	a = within(a)
	for _, p := range o.allow {
		if p.Contains(a) {
			return nil
		}
	}
	what := ""
	switch {
	case a.IsLoopback(), a.IsUnspecified(), thisNetwork.Contains(a):
		what = "is that of a machine itself"
	case a.IsLinkLocalUnicast():
		what = "is link-local, where clouds tell machines their secrets"
	case a.IsMulticast(), a == broadcast:
		what = "is that of many"
	}
	for _, p := range hidden {
		if p.Contains(a) {
			what = fmt.Sprintf("leads to another one that nobody can tell (%s)", p)
		}
	}
	for _, p := range metadata {
		if p.Contains(a) {
			what = "is where a cloud tells machines their secrets"
		}
	}
	if own := o.own.Load(); own != nil {
		for _, p := range *own {
			if p.Contains(a) {
				what = fmt.Sprintf("is one of this cluster's own (%s)", p)
			}
		}
	}
	if what == "" {
		return nil
	}
	return api.Errorf(api.CodeUnreachable, "address %s %s: it is not called because another cluster names it", a, what).
		Fix("if it is really there, allow it: bourse agent --allow-peer-range %s/%d", a, a.BitLen())
}

// dialer checks each address at the time that it is dialled: what a name stands for may have changed since anybody looked.
func (o *outward) dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialWithin, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return o.check(at.Addr())
	}}
}

// checkURL checks what the host of an https URL stands for now, for what Liqo calls. Errors: Unreachable.
func (o *outward) checkURL(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return api.Errorf(api.CodeUnreachable, "%.200q is no https URL", text)
	}
	return o.checkHost(ctx, u.Hostname())
}

// checkHost is checkURL for a host alone. A name that stands for nothing here is refused, unless the admin allows all addresses: where Liqo
// calls it, it can stand for something, such as a number that is read as an address there.
func (o *outward) checkHost(ctx context.Context, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return o.check(a)
	}
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	switch last := labels[len(labels)-1]; {
	case last == "localhost":
		return o.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case last == "" || isNumber(last):
		return api.Errorf(api.CodeUnreachable, "host %.200q is neither an address nor a name", host).Fix("its cluster must name an address like 203.0.113.5, or a name")
	case o.allowsAll():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return api.Errorf(api.CodeUnreachable, "host %.200q stands for no address here: %s", host, err).
			Fix("make the agent's DNS resolve it, or allow all addresses: bourse agent --allow-peer-range 0.0.0.0/0 --allow-peer-range ::/0")
	}
	for _, a := range all {
		if err := o.check(a); err != nil {
			return err
		}
	}
	return nil
}

// isNumber says whether the last label of a host makes resolvers read the host as a number: 127.1, 2130706433 and 0x7f000001 are 127.0.0.1 to them.
func isNumber(label string) bool {
	if _, err := strconv.ParseUint(label, 0, 64); err == nil || strings.HasPrefix(label, "0x") {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// allowsAll says whether the admin allows all addresses.
func (o *outward) allowsAll() bool {
	return slices.ContainsFunc(o.allow, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is4() }) &&
		slices.ContainsFunc(o.allow, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is6() })
}

// learnAgain is how often the cluster's own ranges are read, learnSoon how soon again where they could not be.
const learnAgain, learnSoon = time.Hour, time.Minute

// follow reads the cluster's own ranges now and then, until ctx ends.
func (o *outward) follow(ctx context.Context, k kubernetes.Interface, log *slog.Logger) error {
	for {
		wait := learnAgain
		if o.own.Load() == nil {
			wait = learnSoon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		o.learn(ctx, k, log)
	}
}

// learn reads the cluster's own ranges. Where its nodes cannot be read, what is known stays.
func (o *outward) learn(ctx context.Context, k kubernetes.Interface, log *slog.Logger) {
	own := map[netip.Prefix]bool{}
	add := func(ranges []string) {
		for _, text := range ranges {
			if p, err := netip.ParsePrefix(text); err == nil {
				own[p.Masked()] = true
			}
		}
	}
	for page := (metav1.ListOptions{Limit: 500}); ; {
		nodes, err := k.CoreV1().Nodes().List(ctx, page)
		if err != nil {
			log.Warn("the ranges of the cluster's pods cannot be read: peers could name addresses in them", "error", err, "again in", learnSoon)
			return
		}
		for i := range nodes.Items {
			add(nodes.Items[i].Spec.PodCIDRs)
		}
		if page.Continue = nodes.Continue; page.Continue == "" {
			break
		}
	}
	services, err := k.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range services.Items {
			add(services.Items[i].Spec.CIDRs)
		}
	} else if p, ok := aroundAPIServer(os.Getenv("KUBERNETES_SERVICE_HOST")); ok { // before Kubernetes 1.33 nobody says
		own[p] = true
	}
	all := slices.Collect(maps.Keys(own))
	o.own.Store(&all)
}

// aroundAPIServer guesses the range of a cluster's services from the address of its first one.
func aroundAPIServer(host string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(host)
	bits := 108 // the largest that Kubernetes takes
	if err == nil && a.Is4() {
		bits = 16
		if a == netip.MustParseAddr("10.96.0.1") { // kubeadm's default
			bits = 12
		}
	}
	p, wrong := a.Prefix(bits)
	return p, err == nil && wrong == nil
}
