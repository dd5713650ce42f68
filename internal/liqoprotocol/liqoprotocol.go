// Package liqoprotocol compares what the Liqos of two clusters exchange: the kinds whose objects one writes and the
// other reads, with the versions of their APIs.
//
// Start at [Compare]. A cluster's card carries its protocol. That of an agent of a former release does not, and
// counts as [Default].
package liqoprotocol

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/bourse-dev/bourse/api"
)

// Protocol lists kinds with their APIs, sorted: "ResourceSlice authentication.liqo.io/v1beta1". A kind is there once
// for each version that the cluster serves.
type Protocol []string

// exchanged are the kinds, each with the capability that needs it. The consumer's Liqo writes all of them at the provider
// but the first two: agents make these from messages, with what Liqo signed.
var exchanged = []struct{ kind, capability string }{
	{"Tenant", "handshake"}, {"Identity", "handshake"}, {"Renew", "handshake"}, {"ResourceSlice", "grants"},
	{"NamespaceMap", "offloading"}, {"ShadowPod", "pods"}, {"ShadowEndpointSlice", "pods"},
}

// Exchanges reports whether objects of a kind of Liqo's are exchanged.
func Exchanges(kind string) bool { return capability(kind) != "" }

func capability(kind string) string {
	for _, e := range exchanged {
		if e.kind == kind {
			return e.capability
		}
	}
	return ""
}

// Default is the protocol of Liqo 1.2.
var Default = Protocol{
	"Identity authentication.liqo.io/v1beta1",
	"NamespaceMap offloading.liqo.io/v1beta1",
	"Renew authentication.liqo.io/v1beta1",
	"ResourceSlice authentication.liqo.io/v1beta1",
	"ShadowEndpointSlice offloading.liqo.io/v1beta1",
	"ShadowPod offloading.liqo.io/v1beta1",
	"Tenant authentication.liqo.io/v1beta1",
}

// Of returns the protocol of a cluster with these properties; nil: it has no Liqo, or one that is not known.
func Of(p *api.Properties) Protocol {
	switch {
	case len(p.LiqoProtocol) > 0:
		return p.LiqoProtocol
	case isVersion(p.Liqo):
		return Default
	}
	return nil
}

// isVersion reports whether a text is a version, such as "v1.2.0".
func isVersion(text string) bool {
	major, rest, found := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	isNumber := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	minor, _, _ := strings.Cut(rest, ".")
	return found && isNumber(major) && isNumber(minor)
}

// Compare returns how the protocol of a provider differs from what a consumer's Liqo needs there, with the name of the
// capability; empty: the two can peer. Liqo writes objects in the newest version that its own cluster serves. So the
// provider must serve that one.
func Compare(consumer, provider Protocol) (difference string) {
	for _, e := range exchanged {
		needs, has := consumer.versions(e.kind), provider.versions(e.kind)
		if len(needs) == 0 || slices.Contains(has, needs[0]) {
			continue
		}
		return fmt.Sprintf("the capability %q differs: the consumer's Liqo writes %s in %.80s, the provider serves %.80s",
			e.capability, e.kind, needs[0], strings.Join(append(has, "none")[:max(len(has), 1)], ", "))
	}
	return ""
}

// versions returns the APIs in which a kind is served, such as "authentication.liqo.io/v1beta1", the newest first.
func (p Protocol) versions(kind string) (all []string) {
	for _, line := range p {
		if served, is := strings.CutPrefix(line, kind+" "); is {
			all = append(all, served)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		_, a, _ = strings.Cut(a, "/")
		_, b, _ = strings.Cut(b, "/")
		return version.CompareKubeAwareVersionStrings(b, a)
	})
	return all
}
