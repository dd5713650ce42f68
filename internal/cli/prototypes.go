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

// prototypeFlags are the flags that enable the interfaces of the prototypes.
type prototypeFlags struct {
	broker.Prototypes
	brokerInterface string
	kubeconfig      string
	aggregator      bool
}

func (p *prototypeFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.brokerInterface, "broker-interface", "", "http: also serve the prototypes' resource agents, under /api/v1; kubernetes: also serve members and such agents through objects in the broker's own cluster (docs/kubernetes.md); both (default: off)")
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig of the broker's own cluster, for --broker-interface kubernetes and --with-catalog (default: the cluster that it runs in)")
	f.StringVar(&p.LegacyCA, "legacy-ca", "", "PEM file with further CAs for client certificates of such agents; the common name is the cluster")
	f.BoolVar(&p.Catalog, "with-catalog", false, "also serve liqo-broker's /api/clusters")
	f.BoolVar(&p.Orchestrator, "with-orchestrator", false, "also serve liqo-broker's /api/clusters and /api/toggle")
	f.BoolVar(&p.DistributedCatalog, "distributed-catalog", false, "also serve the API of the Distributed Catalog's broker: /authenticate, /catalog, /offers, /subscribe ... (docs/migrate-catalog.md)")
	f.BoolVar(&p.aggregator, "with-aggregator", false, "not available yet")
}

// read checks the flags. Errors: Invalid with the flag.
func (p *prototypeFlags) read() (broker.Prototypes, error) {
	switch {
	case p.aggregator:
		return broker.Prototypes{}, api.Invalid("--with-aggregator", "there is no aggregator yet").Fix("leave the flag out")
	case !slices.Contains([]string{"", "http", "kubernetes", "both"}, p.brokerInterface):
		return broker.Prototypes{}, api.Invalid("--broker-interface", "%.40q is not an interface", p.brokerInterface).Fix("use http, kubernetes or both, or leave it out")
	}
	p.Agents = p.brokerInterface == "http" || p.brokerInterface == "both"
	p.Objects = p.brokerInterface == "kubernetes" || p.brokerInterface == "both"
	if p.LegacyCA != "" && !p.Agents {
		return broker.Prototypes{}, api.Invalid("--legacy-ca", "the broker serves no agents of the prototypes over http").Fix("also give --broker-interface http or both")
	}
	if p.kubeconfig == "" {
		return p.Prototypes, nil
	}
	if !p.Objects && !p.Catalog && !p.Orchestrator {
		return broker.Prototypes{}, api.Invalid("--kubeconfig", "the broker does not use its own cluster").Fix("leave it out, or also give --broker-interface kubernetes")
	}
	var err error
	p.Kubernetes, err = kubernetes(p.kubeconfig)
	return p.Prototypes, err
}

// maxCSR is far more bytes than any certificate request has.
const maxCSR = 64 << 10

func (sh *shell) signCSRCommand() *cobra.Command {
	var cluster string
	var life time.Duration
	cmd := &cobra.Command{
		Use: "sign-csr FILE --cluster ID", Short: "Sign the certificate of a cluster that runs an agent of a prototype", Args: cobra.ExactArgs(1),
		Long: "FILE (- is standard input) contains a certificate request. The member made it with a key that never leaves its cluster. The\n" +
			"command prints two certificates in PEM: that of the agent, and that of the CA, with which the agent verifies the broker.\n" +
			"The certificate names the cluster that you give with --cluster, not the one in the request. It is a client certificate. It\n" +
			"is void once the cluster has joined with a key of its own. The broker needs its built-in CA and --broker-interface http.\n" +
			"To end the certificate early: bourse broker revoke.",
		Example: "  there  openssl req -new -newkey rsa:2048 -nodes -keyout tls.key -subj /CN=cluster-1 -out cluster-1.csr\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 > tls.crt\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 --duration 720h -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return api.Invalid("--cluster", "the certificate must name a cluster").Fix("give its ID: the --cluster-id of its agent")
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
			fmt.Fprintf(sh.progress, "Valid until %s, for %s. The second certificate is the CA's: the agent's ca.crt.\n", made.Expires.Format(time.RFC3339), cluster)
			_, err = fmt.Fprint(sh.out, made.Certificate)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID of the cluster: the --cluster-id of its agent (required)")
	cmd.Flags().DurationVar(&life, "duration", 8760*time.Hour, "how long the certificate is valid, at most 8760h")
	return cmd
}

// readSmall reads a small text from a file or from standard input.
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
