package cli

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/broker"
)

// prototypeFlags switch on the interfaces of the prototypes, by their own flags.
type prototypeFlags struct {
	broker.Prototypes
	brokerInterface string
	kubeconfig      string
	aggregator      bool
}

func (p *prototypeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.brokerInterface, "broker-interface", "", "http: serve the resource agents of the prototypes, too, under /api/v1; kubernetes: serve members, and such agents, through objects in the broker's own cluster, too (docs/kubernetes.md); or both (default: off)")
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig of the broker's own cluster, for --broker-interface kubernetes and --with-catalog (default: the one that it runs in)")
	f.StringVar(&p.LegacyCA, "legacy-ca", "", "PEM file with further CAs whose client certificates name such agents, by the common name")
	f.BoolVar(&p.Catalog, "with-catalog", false, "serve liqo-broker's /api/clusters, too")
	f.BoolVar(&p.Orchestrator, "with-orchestrator", false, "serve liqo-broker's /api/clusters and /api/toggle, too")
	f.BoolVar(&p.DistributedCatalog, "distributed-catalog", false, "also answer as the broker of the Distributed Catalog did: /authenticate, /catalog, /offers, /subscribe ... (docs/migrate-catalog.md)")
	f.BoolVar(&p.aggregator, "with-aggregator", false, "not served: it comes with the aggregator")
}

// read checks the flags. Errors: Invalid with the flag.
func (p *prototypeFlags) read() (broker.Prototypes, error) {
	switch {
	case p.aggregator:
		return broker.Prototypes{}, api.Invalid("--with-aggregator", "there is no aggregator yet: it comes with the aggregator mode").Fix("leave the flag out")
	case !slices.Contains([]string{"", "http", "kubernetes", "both"}, p.brokerInterface):
		return broker.Prototypes{}, api.Invalid("--broker-interface", "%.40q is not served", p.brokerInterface).Fix("use http, kubernetes or both, or leave it out")
	}
	p.Agents = p.brokerInterface == "http" || p.brokerInterface == "both"
	p.Objects = p.brokerInterface == "kubernetes" || p.brokerInterface == "both"
	if p.LegacyCA != "" && !p.Agents {
		return broker.Prototypes{}, api.Invalid("--legacy-ca", "no agents of the prototypes are served by certificates").Fix("give --broker-interface http or both, too")
	}
	if p.kubeconfig == "" {
		return p.Prototypes, nil
	}
	if !p.Objects && !p.Catalog && !p.Orchestrator {
		return broker.Prototypes{}, api.Invalid("--kubeconfig", "nothing is asked of the broker's own cluster").Fix("leave it out, or give --broker-interface kubernetes, too")
	}
	var err error
	p.Kubernetes, err = kubernetes(p.kubeconfig)
	return p.Prototypes, err
}
