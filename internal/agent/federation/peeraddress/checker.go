// Package peeraddress keeps another cluster from making this one call itself.
//
// Other clusters name addresses, on their cards and in handshakes: those of API servers, connectors
// and gateways. Before the agent, or Liqo for it, calls one of them, a [Checker] checks it. It refuses
// this machine, the cluster's own pods and services, and the addresses at which clouds serve machines
// their metadata. It allows the private networks of a company, and what the admin allows
// (--allow-peer-range).
//
// Start at [Checker.CheckAddress]. [Checker.Dialer] checks each address at the time of the call,
// because a name may resolve to another address than before.
package peeraddress

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
)

// dialWithin bounds how long a connection, or the lookup of a name, may take. A lost packet, or an API server that
// is busy for some seconds, must not end a request.
const dialWithin = 10 * time.Second

// Options say what a Checker allows and refuses.
type Options struct {
	// Allow are ranges that the admin allows, without further checks: see ParseRanges.
	Allow []netip.Prefix
	// Kubernetes is this cluster, whose pods and services are refused. Nil: none are known.
	Kubernetes kubernetes.Interface
	Clock      clock.Clock
	Log        *slog.Logger
}

// Checker checks the addresses that other clusters name.
type Checker struct {
	Options
	own atomic.Pointer[[]netip.Prefix] // of this cluster's pods and services; nil: not read yet
}

// New returns a Checker. It does not know the cluster's own ranges before ReadRanges or Run.
func New(o Options) *Checker { return &Checker{Options: o} }

// Anywhere returns a Checker that allows all addresses, for those that this cluster's own admin names.
func Anywhere() *Checker {
	return New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
}

// ParseRanges reads the ranges that the admin allows. Errors: Invalid with the flag.
func ParseRanges(texts []string) (ranges []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, api.Invalid("--allow-peer-range", "%.80q is not a range of addresses", text).
				Fix("write one like 10.96.0.0/16")
		}
		ranges = append(ranges, p.Masked())
	}
	return ranges, nil
}

// metadata are the addresses, besides link-local ones, at which clouds serve machines their metadata:
// Alibaba, Azure, Oracle, AWS, Google, Scaleway.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("fd00:ec2::23/128"), netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"),
	netip.MustParsePrefix("fd00:42::42/128"),
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.MustParseAddr("255.255.255.255")
	translated  = netip.MustParsePrefix("64:ff9b::/96") // NAT64: an address of IPv4 is in the end of it
	compatible  = netip.MustParsePrefix("::/96")
	stateless   = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT
	sixToFour   = netip.MustParsePrefix("2002::/16")       // an address of IPv4 is in the middle of it
	// hidden lead to IPv4 addresses that cannot be read from them: each network chooses where it puts
	// them in its local NAT64 range, and Teredo's go through a relay.
	hidden = []netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32")}
)

// unwrap returns the IPv4 address that an IPv6 address leads to, or the address itself.
func unwrap(a netip.Addr) netip.Addr {
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

// CheckAddress returns why an address must not be called. Errors: Unreachable.
func (c *Checker) CheckAddress(a netip.Addr) error {
	a = unwrap(a)
	for _, p := range c.Allow {
		if p.Contains(a) {
			return nil
		}
	}
	what := ""
	switch {
	case a.IsLoopback(), a.IsUnspecified(), thisNetwork.Contains(a):
		what = "is a loopback address"
	case a.IsLinkLocalUnicast():
		what = "is link-local, where clouds give secrets to machines"
	case a.IsMulticast(), a == broadcast:
		what = "is a multicast or broadcast address"
	}
	for _, p := range hidden {
		if p.Contains(a) {
			what = fmt.Sprintf("leads to an IPv4 address that cannot be determined (%s)", p)
		}
	}
	for _, p := range metadata {
		if p.Contains(a) {
			what = "is where a cloud gives secrets to machines"
		}
	}
	if own := c.own.Load(); own != nil {
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

// Dialer returns a dialer that checks each address at the time of the call: a name may resolve to
// another address than before.
func (c *Checker) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialWithin, Control: func(_, address string, _ syscall.RawConn) error {
		parsed, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return c.CheckAddress(parsed.Addr())
	}}
}

// CheckURL checks the addresses to which the host of an https URL resolves now. It is for URLs that Liqo
// calls. Errors: Unreachable.
func (c *Checker) CheckURL(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return api.Errorf(api.CodeUnreachable, "%.200q is no https URL", text)
	}
	return c.CheckHost(ctx, u.Hostname())
}

// CheckHost is CheckURL for a host alone. It refuses a name that does not resolve here, unless the admin
// allows all addresses: the name may resolve where Liqo runs, for example as a number that a resolver
// there reads as an address.
func (c *Checker) CheckHost(ctx context.Context, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return c.CheckAddress(a)
	}
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	switch last := labels[len(labels)-1]; {
	case last == "localhost":
		return c.CheckAddress(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case last == "" || isNumber(last):
		return api.Errorf(api.CodeUnreachable, "host %.200q is neither an address nor a name", host).
			Fix("its cluster must name an address like 203.0.113.5, or a name")
	case c.allowsAll():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return api.Errorf(api.CodeUnreachable, "host %.200q stands for no address here: %s", host, err).
			Fix("make the agent's DNS resolve it, or allow all addresses: bourse agent --allow-peer-range 0.0.0.0/0 " +
				"--allow-peer-range ::/0")
	}
	for _, a := range all {
		if err := c.CheckAddress(a); err != nil {
			return err
		}
	}
	return nil
}

// isNumber reports whether the last label of a host makes resolvers read the host as a number. They read
// 127.1, 2130706433 and 0x7f000001 as 127.0.0.1.
func isNumber(label string) bool {
	if _, err := strconv.ParseUint(label, 0, 64); err == nil || strings.HasPrefix(label, "0x") {
		return true
	}
	return strings.Trim(label, "0123456789") == ""
}

// allowsAll reports whether the admin allows all addresses.
func (c *Checker) allowsAll() bool {
	return slices.ContainsFunc(c.Allow, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is4() }) &&
		slices.ContainsFunc(c.Allow, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is6() })
}

// DialTLS returns an error unless a server at an https URL completes a TLS handshake. It checks that
// something answers, not who it is.
func (c *Checker) DialTLS(ctx context.Context, server string) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return api.Errorf(api.CodeUnreachable, "%.200q is no https URL", server).
			Fix("ask its admin to tell Liqo the address of its API server (apiServer.address)")
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	dialer := &tls.Dialer{NetDialer: c.Dialer(), Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}
