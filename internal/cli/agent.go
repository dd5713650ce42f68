package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/identity/store"
)

func (sh *shell) agentCommand() *cobra.Command {
	var o agent.Options
	var log logFlags
	var way transportFlags
	var kubeconfig, identity, endorsement string
	cmd := &cobra.Command{
		Use: "agent", GroupID: "run", Short: "Run the agent of a cluster", Args: cobra.NoArgs,
		Long: "The agent advertises what its cluster shares (SharingPolicy), makes reservations for its people (ResourceRequest)\n" +
			"and accepts those of others as the policy allows. The first time, it joins with a token of the broker's operator.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.logger(sh.progress)
			if err != nil {
				return err
			}
			o.Log = logger
			logKubernetes(logger)
			if o.Join == "" {
				o.Join = os.Getenv("BOURSE_JOIN")
			}
			if err := way.read(&o); err != nil {
				return err
			}
			if endorsement != "" {
				text, err := os.ReadFile(endorsement)
				if err != nil {
					return api.Invalid("--endorsement", "%s", err).Fix("name a file with what `bourse root endorse` printed")
				}
				o.Endorsement = strings.TrimSpace(string(text))
			}
			if o.Kubernetes, err = kubernetes(kubeconfig); err != nil {
				return err
			}
			if identity != "" {
				o.Identity = store.InDir(identity)
			}
			return agent.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: KUBECONFIG, else the pod's own service account)")
	f.StringVar(&o.ClusterID, "cluster-id", "", "name of the cluster (default: Liqo's cluster ID)")
	f.BoolVar(&o.WithoutLiqo, "without-liqo", false, "do not wait for Liqo: the cluster is named by the UID of kube-system")
	f.StringVar(&o.LiqoNamespace, "liqo-namespace", "liqo", "namespace of Liqo")
	f.StringVar(&o.APIServer, "api-server-address-override", "", "URL at which peers reach this cluster's API server, shown on its card (default: as Liqo is told)")
	f.StringVar(&o.NetworkGateway, "network-gateway", "none", "whether this cluster takes part in Liqo's network with others, and how they reach its gateway: none, outbound (it dials theirs), NodePort or LoadBalancer")
	f.BoolVar(&o.AllowUntestedLiqo, "allow-untested-liqo", false, "peer by a version of Liqo that Bourse was not tested with")
	f.StringVar(&o.Namespace, "namespace", api.Namespace, "namespace of what belongs to the agent")
	f.StringVar(&o.Join, "join", "", "token to join a broker with; looked at only until the cluster has joined (also BOURSE_JOIN, which ps does not show)")
	f.StringVar(&o.BrokerURL, "broker-url", "", "where the broker is, https://HOST:PORT (default: as the token says)")
	f.StringVar(&o.CertDir, "broker-cert-path", "", "folder with tls.crt, tls.key and ca.crt, where the broker has no CA of its own; instead of --join")
	way.add(f)
	f.StringVar(&identity, "identity-dir", "", "folder for the agent's keys (default: Secret "+agent.SecretName+")")
	f.StringSliceVar(&o.Roots, "trust-root", nil, "key of a federation's root, as `bourse root create` prints it: keys that it endorses count as confirmed")
	f.StringVar(&endorsement, "endorsement", "", "file in which a root confirms this cluster's key, shown on its card")
	f.DurationVar(&o.Linger, "peering-linger", 10*time.Minute, "how long a peering is kept that no reservation uses; negative: not at all")
	f.DurationVar(&o.Abandon, "peering-abandon", 2*time.Minute, "how long the end of a peering waits for the other side, which may be gone for ever")
	f.DurationVar(&o.ShrinkGrace, "shrink-grace", 30*time.Second, "how long pods may stay after the reservation that they run by has ended, where others go on")
	f.DurationVar(&o.ExcessGrace, "excess-grace", time.Minute, "how long, after that, until they are deleted")
	f.DurationVar(&o.Interval, "advertisement-requeue-interval", 30*time.Second, "how often to advertise without a change")
	f.BoolVar(&o.LeaderElect, "leader-elect", false, "let one of several replicas lead")
	f.StringVar(&o.Socket, "socket", agentSocket(), "socket for the people of the cluster")
	f.StringVar(&o.ConnectorListen, "connector-listen", "", "address at which clusters that know this one by its key deal with it without a broker, such as 0.0.0.0:7444 (default: off)")
	f.StringVar(&o.ConnectorURL, "connector-url", "", "URL at which they reach that address, for the card, such as https://bourse.milan.example:7444")
	f.StringSliceVar(&o.PeerRanges, "allow-peer-range", nil, "range of addresses (CIDR) that peers may name as theirs although it is loopback, link-local or of this cluster's own pods and services")
	f.StringVar(&o.Listen, "listen", "", "address on loopback for people who show the token, such as 127.0.0.1:7080 (default: off)")
	f.StringVar(&o.TokenFile, "token-file", "", "file for that token; it is made if absent")
	f.BoolVar(&o.DistributedCatalog, "distributed-catalog", false, "at --socket and --listen, also answer as the connector of the Distributed Catalog did, under /api (docs/migrate-catalog.md)")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", "", "address for /livez and /readyz, such as :8081 (default: off)")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", "", "address for /metrics, such as :8080 (default: off)")
	log.add(f)
	cmd.AddCommand(sh.fingerprintCommand(), sh.rotateKeyCommand())
	return cmd
}

// logKubernetes hands on what Kubernetes' own code has to say.
func logKubernetes(log *slog.Logger) {
	klog.SetSlogLogger(log)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
}

func kubernetes(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, api.Invalid("--kubeconfig", "%s", err).Fix("name the kubeconfig of the cluster")
	}
	return config, nil
}

func (sh *shell) fingerprintCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fingerprint", Short: "Print the fingerprint of this cluster's key, for operators and peers to compare", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, s, err := sh.ownStatus(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sh.out, s.Fingerprint)
			return err
		},
	}
}

func (sh *shell) rotateKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rotate-key", Short: "Give this cluster a new key, signed by the one that it has, and print its fingerprint", Args: cobra.NoArgs,
		Long: "The old key signs the new one, so that the broker and all clusters that know the old one believe the new; what is reserved\n" +
			"goes on. The agent starts again with it. Tell the new fingerprint to the admins who confirmed the old one. After a theft,\n" +
			"rotate at once: whoever has seen the new key does not believe the old one any more.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, s, err := sh.ownStatus(cmd.Context())
			if err != nil {
				return err
			}
			rotated, err := c.RotateKey(cmd.Context(), s.Fingerprint)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s has a new key instead of %s; the agent starts again with it.\n", s.Cluster, s.Fingerprint)
			_, err = fmt.Fprintln(sh.out, rotated.Fingerprint)
			return err
		},
	}
}

// logFlags say how the long-running commands log.
type logFlags struct{ level, format string }

func (l *logFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "text or json")
}

func (l *logFlags) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, api.Invalid("--log-level", "%q is not a level", l.level).Fix("choose debug, info, warn or error")
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, api.Invalid("--log-format", "%q is not a format", l.format).Fix("choose text or json")
	}
}
