package liqo

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Tested are the versions of Liqo with which Bourse's tests run, the newest last. Oldest is the oldest minor version
// that Bourse uses. A newer one than the tested is used if it has all capabilities.
const (
	Oldest = "1.2"
	Tested = "v1.2.0"
)

// Capability is something that Bourse needs of a cluster's Liqo: kinds with their fields, or a module.
type Capability struct {
	Name string
	// Kinds are needed with each of their fields in fields.txt. Modules are those that Liqo's Deployment can disable.
	Kinds, Modules []string
	// Breaks says what does not work without it.
	Breaks string
}

// Capabilities are all of them.
var Capabilities = []Capability{
	{Name: "modules", Modules: []string{"authentication", "offloading"},
		Breaks: "Liqo neither certifies consumers nor makes virtual nodes"},
	{Name: "handshake", Kinds: []string{"Tenant", "Identity", "Renew"}, Breaks: "two clusters cannot peer"},
	{Name: "grants", Kinds: []string{"ResourceSlice"}, Breaks: "a provider cannot say what it grants"},
	{Name: "virtual nodes", Kinds: []string{"VirtualNode", "VkOptionsTemplate"}, Breaks: "a consumer gets no virtual node"},
	{Name: "offloading", Kinds: []string{"NamespaceOffloading", "NamespaceMap"},
		Breaks: "no namespace comes to a provider"},
	{Name: "pods", Kinds: []string{"ShadowPod", "ShadowEndpointSlice", "Quota"},
		Breaks: "a provider neither runs a consumer's pods nor limits them"},
	{Name: "networks", Kinds: []string{"Configuration", "Connection", "GatewayServer", "GatewayClient", "PublicKey", "IP",
		"Network"}, Breaks: "the pods of two clusters cannot reach each other"},
	{Name: "peerings", Kinds: []string{"ForeignCluster"}, Breaks: "peerings made by hand are not seen"},
}

// successors are fields by which a later Liqo replaces one of fields.txt: a cluster that serves the successor
// lacks nothing.
var successors = map[string]string{"VirtualNode spec.template.spec": "status.effectiveOffloadingPatch"}

// Support says whether Bourse uses a cluster's Liqo.
type Support struct {
	// Untested: Bourse uses it, and its tests run with older minor versions only.
	Untested bool
	// Refused says why Bourse does not use it; empty: it does. It names what is missing and what breaks without it.
	Refused string
	// Lacks is the capability that it lacks; nil: none, or it is refused by its version.
	Lacks *Capability
}

// Judge decides whether Bourse uses a Liqo: its version must not be too old, and it must have each capability. A
// version that is unknown is judged by its capabilities alone.
func Judge(found Installation, served Served) Support {
	minor, tested := Minor(found.Version), Minor(Tested)
	if minor != "" && version.MustParseGeneric(minor).LessThan(version.MustParseGeneric(Oldest)) {
		return Support{Refused: fmt.Sprintf("Liqo %s is older than %s, the oldest version that Bourse uses",
			found.Version, Oldest)}
	}
	for i := range Capabilities {
		c := &Capabilities[i]
		if why := c.lacking(found, served); why != "" {
			return Support{Lacks: c, Refused: fmt.Sprintf("%s lacks the capability %q: %s, and without it %s",
				strings.TrimSpace("Liqo "+found.Version), c.Name, why, c.Breaks)}
		}
	}
	return Support{Untested: minor != "" && version.MustParseGeneric(tested).LessThan(version.MustParseGeneric(minor))}
}

// lacking says what of the capability is missing; empty: nothing.
func (c *Capability) lacking(found Installation, served Served) string {
	for _, module := range c.Modules {
		if slices.Contains(strings.Fields(found.Off), module) {
			return "the module " + module + " is disabled"
		}
	}
	for _, kind := range c.Kinds {
		if what := served.lacks[kind]; what != "" {
			return "the API server does not serve " + what
		}
	}
	return ""
}
