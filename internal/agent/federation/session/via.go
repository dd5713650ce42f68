package session

import (
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// brokerPrefix begins the Via of each broker but the main one. No cluster has such a name.
const brokerPrefix = "broker/"

// ViaBroker returns the Via of the broker of a name.
func ViaBroker(name string) string {
	if name == api.MainBroker {
		return ""
	}
	return brokerPrefix + name
}

// IsBroker reports whether a Via names a broker.
func IsBroker(via string) bool { return via == "" || strings.HasPrefix(via, brokerPrefix) }

// BrokerName returns the name of the broker that a Via names. For a connector it returns the name of its
// cluster.
func BrokerName(via string) string {
	if via == "" {
		return api.MainBroker
	}
	return strings.TrimPrefix(via, brokerPrefix)
}

// IsShownAt reports whether a SharingPolicy that names these brokers shows what the cluster lends there. It
// names all if it names none. The connector always shows it.
func IsShownAt(via string, brokers []string) bool {
	return len(brokers) == 0 || !IsBroker(via) || slices.Contains(brokers, BrokerName(via))
}
