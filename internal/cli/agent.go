package cli

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

func (sh *shell) agentCommand() *cobra.Command {
	var a agentFlags
	cmd := &cobra.Command{
		Use: "agent", GroupID: "run", Short: "Run the agent of a cluster", Args: cobra.NoArgs,
		Long: "The agent advertises what its cluster shares (SharingPolicy). It makes reservations for the cluster's\n" +
			"users (ResourceRequest), and accepts those of other clusters as the policy allows. The first time, it\n" +
			"joins with a token of the broker's operator, and waits for it. With --without-broker it joins none.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.read(sh.progress, cmd.Flags())
			if err != nil {
				return err
			}
			return agent.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	a.addCluster(f)
	a.addMembership(f)
	a.addTimes(f)
	a.addListeners(f)
	a.log.add(f)
	cmd.AddCommand(sh.fingerprintCommand(), sh.rotateKeyCommand())
	return cmd
}

// agentFlags are the flags of the agent. Most set a field of its settings.
type agentFlags struct {
	settings.Options
	log                               logFlags
	way                               transportFlags
	spaces                            namespaceFlags
	kubeconfig, identity, endorsement string
}

func (a *agentFlags) addCluster(f *pflag.FlagSet) {
	f.StringVar(&a.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster (default: KUBECONFIG, else the pod's own service account)")
	f.StringVar(&a.Member.ClusterID, "cluster-id", "", "name of the cluster (default: Liqo's cluster ID)")
	f.BoolVar(&a.Liqo.Off, "without-liqo", false,
		"do not wait for Liqo; without --cluster-id, the UID of kube-system names the cluster")
	f.StringVar(&a.Liqo.Namespace, "liqo-namespace", "liqo", "namespace of Liqo")
	f.StringVar(&a.Liqo.APIServer, "api-server-address-override",
		"", "URL of this cluster's API server on its card, for peers (default: the one that Liqo knows)")
	f.StringVar(&a.Liqo.Gateway, "network-gateway", "none",
		"how this cluster takes part in Liqo's network: none, outbound (its gateway dials the other one), NodePort or "+
			"LoadBalancer (others can dial its gateway)")
	f.Bool("allow-untested-liqo", false, "does nothing")
	_ = f.MarkDeprecated("allow-untested-liqo", "the agent uses each Liqo that has what Bourse needs: remove the flag")
	f.StringVar(&a.Namespace, "namespace", "",
		"namespace of the agent and its objects (default: POD_NAMESPACE, else "+api.Namespace+")")
	a.spaces.add(f)
	f.StringVar(&a.AdvertisementName, "advertisement-name", "cluster", "name of the Advertisement that the agent writes")
	f.BoolVar(&a.LeaderElect, "leader-elect", false, "elect a leader among several replicas")
}

func (a *agentFlags) addMembership(f *pflag.FlagSet) {
	f.StringVar(&a.Member.Join, "join", "",
		"join token of a broker, before that of --join-secret; ignored once the cluster has joined (also BOURSE_JOIN, which "+
			"ps does not show)")
	f.StringVar(&a.Member.JoinSecret, "join-secret", "bourse-join",
		"Secret in the agent's namespace that holds the join token under the key token; it may come while the agent runs")
	f.BoolVar(&a.Member.NoBroker, "without-broker", false,
		"run without a broker: deal with the clusters that bourse peers add names")
	f.StringVar(&a.Member.BrokerURL, "broker-url", "",
		"URL of the broker, https://HOST:PORT (default: the one in the token)")
	f.StringVar(&a.Member.CertDir, "broker-cert-path", "",
		"folder with tls.crt, tls.key and ca.crt, for a broker without its own CA; replaces --join")
	a.way.add(f)
	f.StringVar(&a.identity, "identity-dir", "", "folder for the agent's keys (default: Secret "+agent.SecretName+")")
	f.StringSliceVar(&a.Peers.Roots, "trust-root", nil,
		"public key of a federation's root, as printed by bourse root create; keys that it endorses count as confirmed")
	f.StringVar(&a.endorsement, "endorsement", "", "file with a root's endorsement of this cluster's key; the card shows it")
	f.StringSliceVar(&a.Peers.Ranges, "allow-peer-range", nil,
		"CIDR that peers may name as their own, although it is loopback, link-local or used by this cluster's pods or "+
			"services; may be repeated")
}

func (a *agentFlags) addTimes(f *pflag.FlagSet) {
	durationVar(f, &a.Times.Linger, "peering-linger", 10*time.Minute,
		"how long to keep a peering that no reservation uses; negative: do not keep it")
	durationVar(f, &a.Times.Abandon, "peering-abandon", 2*time.Minute,
		"how long the end of a peering waits for the other cluster")
	durationVar(f, &a.Times.Shrink, "shrink-grace", 30*time.Second,
		"how long pods may stay that no longer fit, because a reservation ended or became smaller")
	durationVar(f, &a.Times.Excess, "excess-grace", time.Minute,
		"how long after --shrink-grace the provider deletes pods that no longer fit")
	durationVar(f, &a.Times.Dead, "pool-dead-after", 3*time.Minute,
		"how long a virtual node of a pool may be NotReady before its provider is replaced")
	_ = f.MarkHidden("pool-dead-after") // tests shorten it
	durationVar(f, &a.Times.Advertise, "advertisement-requeue-interval",
		30*time.Second, "how often to advertise when nothing changes")
	f.BoolVar(&a.Times.Aligned, "publish-aligned", false,
		"advertise at times that are multiples of that interval, as the prototypes do (default: clusters take turns)")
}

func (a *agentFlags) addListeners(f *pflag.FlagSet) {
	f.StringVar(&a.Listen.Socket, "socket", agentSocket(), "socket for users of the cluster")
	f.StringVar(&a.Listen.Questions, "questions-listen", "127.0.0.1:0",
		"address of loopback for users who have a Session of the cluster; port 0 is any")
	f.StringVar(&a.Listen.Connector, "connector-listen", "",
		"address of the connector, where clusters that know this one deal with it without a broker, such as "+
			"0.0.0.0:7444 (default: off)")
	f.StringVar(&a.Listen.ConnectorURL, "connector-url", "",
		"URL of the connector, shown on the card, such as https://bourse.milan.example:7444")
	f.StringVar(&a.Listen.Loopback, "listen", "",
		"address for users who have the token, such as 127.0.0.1:7080, or 0.0.0.0:7080 behind a Service; "+
			"without TLS (default: off)")
	f.StringVar(&a.Listen.TokenFile, "token-file", "", "file with the token for --listen; created if it does not exist")
	f.BoolVar(&a.Listen.DistributedCatalog, "distributed-catalog", false,
		"at --socket and --listen, also serve the API of the Distributed Catalog's connector, under /api "+
			"(docs/migrate-catalog.md)")
	f.StringVar(&a.Listen.Health, "health-probe-bind-address", "",
		"address for /livez and /readyz, such as :8081 (default: off)")
	f.StringVar(&a.Listen.Metrics, "metrics-bind-address", "", "address for /metrics, such as :8080 (default: off)")
}

// read returns the settings that the flags give. The log goes to out. Errors: Invalid with the flag.
func (a *agentFlags) read(out io.Writer, given *pflag.FlagSet) (o settings.Options, err error) {
	if a.Log, err = a.log.logger(out); err != nil {
		return o, err
	}
	logKubernetes(a.Log)
	if a.Member.Join == "" {
		a.Member.Join = os.Getenv("BOURSE_JOIN")
	}
	if a.way.transport == "" && given.Changed("broker-transport") {
		a.Member = offline(a.Member)
	} else if err := a.way.read(&a.Member); err != nil {
		return o, err
	}
	if err := a.spaces.read(&a.Options); err != nil {
		return o, err
	}
	if a.endorsement != "" {
		text, err := os.ReadFile(a.endorsement)
		if err != nil {
			return o, api.Invalid("--endorsement", "%s", err).Fix("name the file with the output of `bourse root endorse`")
		}
		a.Member.Endorsement = strings.TrimSpace(string(text))
	}
	if a.Kubernetes, err = kubernetes(a.kubeconfig); err != nil {
		return o, err
	}
	if a.identity != "" {
		a.Member.Identity = store.InDir(a.identity)
	}
	a.Listen.Pod, a.Account = os.Getenv("POD_NAME"), os.Getenv("POD_SERVICE_ACCOUNT")
	return a.Options, nil
}

// namespaceFlags are the prototype's flags for the namespace of the agent's objects. All of them are in one.
type namespaceFlags struct{ advertisement, instruction string }

func (n *namespaceFlags) add(f *pflag.FlagSet) {
	f.StringVar(&n.advertisement, "advertisement-namespace", "",
		"the same as --namespace, as the prototype's agent names it")
	f.StringVar(&n.instruction, "instruction-namespace", "", "the same as --namespace, as the prototype's agent names it")
}

// read finds the namespace of the agent. Errors: Invalid with the flag.
func (n *namespaceFlags) read(o *settings.Options) error {
	for _, given := range [][2]string{{"--advertisement-namespace", n.advertisement},
		{"--instruction-namespace", n.instruction}} {
		namespace := given[1]
		if namespace == "" {
			continue
		}
		if o.Namespace != "" && o.Namespace != namespace {
			return api.Invalid(given[0], "%.63q is another namespace than %.63q", namespace, o.Namespace).
				Fix("name one: Advertisement and ProviderInstructions are in the agent's namespace, ReservationInstructions " +
					"beside their ResourceRequest")
		}
		o.Namespace = namespace
	}
	o.Namespace = cmp.Or(o.Namespace, os.Getenv("POD_NAMESPACE"), api.Namespace)
	return nil
}

// logKubernetes sends the log lines of the Kubernetes libraries to log.
func logKubernetes(log *slog.Logger) {
	quiet := kubeobject.QuietLog(log.Handler())
	klog.SetSlogLogger(slog.New(quiet))
	ctrl.SetLogger(logr.FromSlogHandler(quiet))
}

func kubernetes(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = errors.New("there is no kubeconfig")
	}
	if err != nil {
		return nil, api.Invalid("--kubeconfig", "%s", err).Fix("name the kubeconfig of the cluster, or set KUBECONFIG")
	}
	return config, nil
}

// statusAtSocket asks the agent at its socket, or at --server: these commands are for the machine or the pod of the agent.
func (sh *shell) statusAtSocket(ctx context.Context) (*client.Client, api.AgentStatus, error) {
	server, err := sh.find("agent", agentSocket(), "run the command where the agent runs")
	if err != nil {
		return nil, api.AgentStatus{}, err
	}
	c := client.New(server, nil).WithToken(os.Getenv("BOURSE_TOKEN"))
	s, err := c.Status(ctx)
	return c, s, err
}

func (sh *shell) fingerprintCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fingerprint", Short: "Print the fingerprint of this cluster's key, for comparison", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, s, err := sh.statusAtSocket(cmd.Context())
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
		Use:   "rotate-key",
		Short: "Give this cluster a new key, signed by the old one, and print its fingerprint", Args: cobra.NoArgs,
		Long: "The old key signs the new one. So the broker, and all clusters that know the old key, trust the new key.\n" +
			"Reservations stay. The agent restarts with the new key. Give the new fingerprint to the admins who\n" +
			"confirmed the old one. After a theft, rotate at once: a cluster that has seen the new key no longer\n" +
			"trusts the old one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, s, err := sh.statusAtSocket(cmd.Context())
			if err != nil {
				return err
			}
			rotated, err := c.RotateKey(cmd.Context(), s.Fingerprint)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s has a new key, which replaces %s. The agent restarts with it.\n",
				s.Cluster, s.Fingerprint)
			_, err = fmt.Fprintln(sh.out, rotated.Fingerprint)
			return err
		},
	}
}

// logFlags are the logging flags of the long-running commands.
type logFlags struct{ level, format string }

func (l *logFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "log level: debug, info, warn or error")
	f.StringVar(&l.format, "log-format", "text", "log format: text or json")
}

func (l *logFlags) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, api.Invalid("--log-level", "%q is not a level", l.level).Fix("choose debug, info, warn or error")
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: cutText}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	default:
		return nil, api.Invalid("--log-format", "%q is not a format", l.format).Fix("choose text or json")
	}
}

// maxLogText bounds each text of a log line, in bytes. Other parties choose what errors say.
const maxLogText = 4 << 10

// cutText cuts a text, or what an error says, that is too long for a log line.
func cutText(_ []string, a slog.Attr) slog.Attr {
	text, ok := a.Value.Any().(string)
	if err, failed := a.Value.Any().(error); failed {
		text, ok = err.Error(), true
	}
	if ok && len(text) > maxLogText {
		a.Value = slog.StringValue(api.CutText(text, maxLogText))
	}
	return a
}
