package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/identity/join"
)

// brokerStart holds an operator's answers before the first start of a broker.
type brokerStart struct {
	install.BrokerInstallation
	kubeconfig, service string
	storage             resource.QuantityValue
	yes, dryRun         bool
}

func (sh *shell) brokerInitCommand() *cobra.Command {
	s := &brokerStart{}
	cmd := &cobra.Command{
		Use: "init", Short: "Install a broker in a cluster", Args: cobra.NoArgs,
		Long: "Init prints the objects of a broker (namespace, Service, StatefulSet with a volume), and applies them if\n" +
			"you answer yes. Without a terminal, and without --yes, it applies nothing. You can run it again: new\n" +
			"settings replace the old ones. Members reach the broker at --host; --port is the port of the listener and\n" +
			"of the Service, and with --service NodePort also of each node.",
		Example: "  bourse broker init --image REGISTRY/bourse:TAG --host broker.example.org\n" +
			"  bourse broker init --image REGISTRY/bourse:TAG --host 172.18.0.2 --service NodePort --port 30743 --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.dryRun && s.yes {
				return api.Invalid("--yes", "nothing is applied with --dry-run").Fix("leave one of them out")
			}
			if err := s.check(); err != nil {
				return err
			}
			return sh.startBroker(cmd.Context(), s, func(question string) bool {
				return terminal(os.Stdin) && agrees(cmd.Context(), bufio.NewReader(os.Stdin), sh.progress, question)
			})
		},
	}
	cmd.Flags().AddFlagSet(s.flags())
	return cmd
}

func (s *brokerStart) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("broker-init", pflag.ContinueOnError)
	f.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster's admin (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&s.Namespace, "namespace", "bourse-broker", "namespace of the broker")
	f.StringVar(&s.Image, "image", "", "image of the broker, which you build and push (docs/images.md); required")
	f.StringSliceVar(&s.Hosts, "host", nil, "names and addresses by which members reach the broker; required")
	f.StringVar(&s.URL, "url", "", "URL that goes into join tokens, https://HOST:PORT (default: the first --host and --port)")
	f.Int32Var(&s.Port, "port", 7443, "port of the broker and its Service; with --service NodePort, 30000 to 32767")
	f.StringVar(&s.service, "service", "LoadBalancer", "type of the Service: LoadBalancer, NodePort or ClusterIP")
	s.storage = resource.QuantityValue{Quantity: *resource.NewQuantity(10<<30, resource.BinarySI)}
	f.Var(&s.storage, "storage", "size of the volume for the journal")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the objects and apply nothing")
	f.BoolVar(&s.yes, "yes", false, "ask nothing and apply the objects")
	return f
}

// check reports the first answer that is not valid.
func (s *brokerStart) check() error {
	if err := checkImage(s.Image); err != nil {
		return err
	}
	if len(s.Hosts) == 0 {
		return api.Invalid("--host", "it names no host").
			Fix("give the name or address by which members reach the broker: --host broker.example.org")
	}
	for _, host := range s.Hosts {
		if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			return api.Invalid("--host", "%.80q is neither a name nor an address", host).
				Fix("write it without a port: --host broker.example.org")
		}
	}
	if s.URL != "" {
		if err := join.CheckURL(s.URL); err != nil {
			return api.Invalid("--url", "%s", err).Fix("write https://HOST:PORT")
		}
	}
	types := []string{string(corev1.ServiceTypeLoadBalancer), string(corev1.ServiceTypeNodePort),
		string(corev1.ServiceTypeClusterIP)}
	if s.Service = corev1.ServiceType(s.service); !slices.Contains(types, s.service) {
		return api.Invalid("--service", "%.40q is no type of a Service", s.service).Fix("choose %s", strings.Join(types, ", "))
	}
	if s.Port < 1024 || s.Port > 65535 {
		return api.Invalid("--port", "%d is not a port that a process without rights can have", s.Port).
			Fix("give 1024 to 65535")
	}
	if s.Service == corev1.ServiceTypeNodePort && (s.Port < 30000 || s.Port > 32767) {
		return api.Invalid("--port", "%d is not a port of nodes", s.Port).Fix("with --service NodePort, give 30000 to 32767")
	}
	if s.Storage = s.storage.Quantity; s.Storage.Sign() <= 0 {
		return api.Invalid("--storage", "%s is not a size", s.Storage.String()).Fix("write 10Gi")
	}
	return nil
}

// startBroker prints the objects, and applies them if the operator agrees.
func (sh *shell) startBroker(ctx context.Context, s *brokerStart, agreed func(string) bool) (err error) {
	var config *rest.Config
	if !s.dryRun {
		if config, err = kubernetes(s.kubeconfig); err != nil && s.yes {
			return err
		}
	}
	if !s.yes {
		for _, o := range s.Objects() {
			if err := sh.writeObject(o, ""); err != nil {
				return err
			}
		}
	}
	url := s.URL
	if url == "" {
		url = "https://" + s.Hosts[0]
	}
	if reach := join.LocalReach(url); reach != "" {
		fmt.Fprintf(sh.progress, "Warning: join tokens will have %s, which can be reached %s only.\n", url, reach)
	}
	switch {
	case s.dryRun:
		return nil
	case config == nil || !s.yes && !agreed("Apply this to the cluster at "+config.Host+"?"):
		fmt.Fprintln(sh.progress, "Nothing was applied. To apply the objects: bourse broker init ... --yes")
		return nil
	}
	if err := s.Apply(ctx, config, func(done string) { fmt.Fprintln(sh.progress, done) }); err != nil {
		return err
	}
	fmt.Fprintf(sh.progress, "The broker is starting. See: kubectl -n %[1]s rollout status statefulset broker\n"+
		"Then make a token for each cluster: bourse broker token create --context CONTEXT -n %[1]s --cluster NAME "+
		"-o secret\n", s.Namespace)
	return nil
}
