package prototypes

import (
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/api"
)

// Flags are the flags of the broker that enable the interfaces.
type Flags struct {
	options         Options
	brokerInterface string
	kubeconfig      string
}

// Add adds the flags to a command.
func (p *Flags) Add(f *pflag.FlagSet) {
	o := &p.options
	f.StringVar(&p.brokerInterface, "broker-interface", "",
		"http: also serve the prototypes' resource agents, under /api/v1; kubernetes: also serve members and such agents "+
			"through objects in the broker's own cluster (docs/kubernetes.md); both (default: off)")
	f.StringVar(&p.kubeconfig, "kubeconfig", "",
		"kubeconfig of the broker's own cluster, for --broker-interface kubernetes, --with-catalog, "+
			"--with-orchestrator and --with-aggregator (default: the cluster that it runs in)")
	f.StringVar(&o.LegacyCA, "legacy-ca", "",
		"PEM file with further CAs for client certificates of such agents; the common name is the cluster ID")
	f.BoolVar(&o.Catalog, "with-catalog", false, "also serve liqo-broker's /api/clusters")
	f.BoolVar(&o.Orchestrator, "with-orchestrator", false, "also serve liqo-broker's /api/clusters and /api/toggle")
	f.BoolVar(&o.DistributedCatalog, "distributed-catalog", false,
		"also serve the API of the Distributed Catalog's broker: /authenticate, /catalog, /offers, /subscribe ... "+
			"(docs/migrate-catalog.md)")
	f.BoolVar(&o.Aggregator, "with-aggregator", false,
		"also serve liqo-broker's /api/clusters, with hubs only (docs/hub.md)")
}

// Options checks the flags. Errors: Invalid with the flag.
func (p *Flags) Options() (Options, error) {
	o := p.options
	switch {
	case !slices.Contains([]string{"", "http", "kubernetes", "both"}, p.brokerInterface):
		return o, api.Invalid("--broker-interface", "%.40q is not an interface", p.brokerInterface).
			Fix("use http, kubernetes or both, or leave it out")
	}
	o.Agents = p.brokerInterface == "http" || p.brokerInterface == "both"
	o.Objects = p.brokerInterface == "kubernetes" || p.brokerInterface == "both"
	if o.LegacyCA != "" && !o.Agents {
		return o, api.Invalid("--legacy-ca", "the broker serves no agents of the prototypes over http").
			Fix("also give --broker-interface http or both")
	}
	if p.kubeconfig == "" {
		return o, nil
	}
	if !o.Objects && !o.Catalog && !o.Orchestrator && !o.Aggregator {
		return o, api.Invalid("--kubeconfig", "the broker does not use its own cluster").
			Fix("leave it out, or also give --broker-interface kubernetes")
	}
	var err error
	if o.Kubernetes, err = clientcmd.BuildConfigFromFlags("", p.kubeconfig); err != nil {
		return o, api.Invalid("--kubeconfig", "%s", err).Fix("name the kubeconfig of the cluster")
	}
	return o, nil
}
