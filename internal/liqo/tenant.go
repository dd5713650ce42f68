package liqo

import (
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Restricted marks a Tenant that we cordoned or drained. Its value is the condition that we set by the policy, which
// distinguishes it from an admin's change, or Suspended.
const Restricted = api.Group + "/restricted"

// Suspended is the mark of a Tenant that we cordoned because an admin suspended the consumer.
const Suspended = "Suspended"

// HubPrefix begins the names of namespaces that a hub offloads for its customers: agg-T-N-HUB. T is
// random for each customer, N for each namespace, so that providers do not learn who the customers are.
const HubPrefix = "agg-"

// MaxHubID is the largest number of characters of a hub's ID: such a name is a DNS label with two parts
// of 8 characters before it.
const MaxHubID = 63 - len(HubPrefix) - 2*len("xxxxxxxx-")

// TenantOf returns the part T of such a name. It is empty for a namespace that has another name, or
// is not the hub's.
func TenantOf(namespace, hub string) string {
	middle, of := strings.CutSuffix(namespace, "-"+hub)
	middle, ok := strings.CutPrefix(middle, HubPrefix)
	if tenant, name, two := strings.Cut(middle, "-"); of && ok && two && len(tenant) == 8 && len(name) == 8 {
		return tenant
	}
	return ""
}
