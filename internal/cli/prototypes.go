package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
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

// maxCSR is far above any certificate request.
const maxCSR = 64 << 10

func (sh *shell) signCSRCommand() *cobra.Command {
	var cluster string
	var life time.Duration
	cmd := &cobra.Command{
		Use: "sign-csr FILE --cluster ID", Short: "Make the certificate of a cluster whose agent is of the prototypes", Args: cobra.ExactArgs(1),
		Long: "FILE (- is standard input) holds a certificate request, which the member made with a key that never leaves it. Printed is the\n" +
			"certificate that its agent shows, and after it that of the CA, by which the agent verifies the broker: both are PEM. It\n" +
			"names the cluster that you say, whatever the request asks for, is for clients alone, and worth nothing once the cluster has\n" +
			"joined with a key of its own. It is for brokers with the built-in CA and --broker-interface http. To end it earlier than\n" +
			"with its time: bourse broker revoke.",
		Example: "  there  openssl req -new -newkey rsa:2048 -nodes -keyout tls.key -subj /CN=cluster-1 -out cluster-1.csr\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 > tls.crt\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 --duration 720h -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return api.Invalid("--cluster", "the certificate must name a cluster").Fix("give its ID, as its agent has it in --cluster-id")
			}
			request, err := readSmall(args[0])
			if err != nil {
				return err
			}
			c, err := sh.operator()
			if err != nil {
				return err
			}
			made, err := c.SignCSR(cmd.Context(), cluster, request, life)
			if err != nil {
				return err
			}
			if sh.output == "json" || sh.output == "yaml" {
				return sh.encode(made)
			}
			fmt.Fprintf(sh.progress, "Good until %s, for %s. The second certificate is the CA's: the agent's ca.crt.\n", made.Expires.Format(time.RFC3339), cluster)
			_, err = fmt.Fprint(sh.out, made.Certificate)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID of the cluster, as its agent has it in --cluster-id (required)")
	cmd.Flags().DurationVar(&life, "duration", 8760*time.Hour, "how long the certificate lives, 8760h at most")
	return cmd
}

// readSmall reads a small text from a file, or from standard input.
func readSmall(file string) (string, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", api.Invalid("FILE", "%s", err).Fix("name a file with a certificate request")
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxCSR+1))
	if err == nil && len(data) > maxCSR {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxCSR)
	}
	if err != nil {
		return "", api.Invalid("FILE", "%s", err).Fix("name a file with a certificate request")
	}
	return string(data), nil
}
