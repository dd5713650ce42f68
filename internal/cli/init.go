package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/market"
)

// start holds an admin's answers before the first start of an agent, from flags or from questions.
type start struct {
	kubeconfig, namespace, image string
	clusterID, token, brokerURL  string
	withoutLiqo                  bool
	share                        int
	caps, hub                    api.Resources
	visibleTo                    []string
	allow, connector             string
	yes, dryRun                  bool
}

func (sh *shell) initCommand() *cobra.Command {
	s := &start{}
	cmd := &cobra.Command{
		Use: "init", GroupID: "run",
		Short: "Install the agent in a cluster: ask for its settings and start it", Args: cobra.NoArgs,
		Long: "Init asks for the agent's settings: the cluster's name, the join token, what the cluster shares and with\n" +
			"whom. Every question has a flag; init does not ask what a flag answers. Then it prints the objects (a\n" +
			"Secret with the token, the SharingPolicy, the agent's rights and its Deployment) and applies them if you\n" +
			"answer yes. Install the chart bourse-base before. What Helm or Argo CD installed it does not change.\n" +
			"Without a terminal it asks nothing, and without --yes it applies nothing. By default the cluster shares\n" +
			"nothing. You can run init again: new settings replace the old ones. No image is published yet: build one,\n" +
			"and name it with --image.",
		Example: "  bourse init --image REGISTRY/bourse\n" +
			"  bourse init --image REGISTRY/bourse --join TOKEN --share 50 --cap nvidia.com/gpu=2 --visible-to rome,oslo " +
			"--yes\n" +
			"  bourse init --image REGISTRY/bourse --join TOKEN --without-liqo --dry-run > agent.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.dryRun && s.yes {
				return api.Invalid("--yes", "nothing is applied with --dry-run").Fix("leave one of them out")
			}
			ctx, in := cmd.Context(), bufio.NewReader(os.Stdin)
			if terminal(os.Stdin) && !s.yes {
				if err := s.ask(ctx, in, sh.progress, cmd.Flags()); err != nil {
					return err
				}
			}
			return sh.start(ctx, s, func(question string) bool {
				return terminal(os.Stdin) && agrees(ctx, in, sh.progress, question)
			})
		},
	}
	cmd.Flags().AddFlagSet(s.flags())
	return cmd
}

// flags returns a flag for each question, and those for the installation itself.
func (s *start) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("init", pflag.ContinueOnError)
	f.StringVar(&s.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster's admin (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&s.namespace, "namespace", api.Namespace, "namespace of the agent")
	f.StringVar(&s.image, "image", "", "image of the agent, which you build and push (docs/images.md); required")
	f.BoolVar(&s.withoutLiqo, "without-liqo", false,
		"do not wait for Liqo; without --cluster-id, the UID of kube-system names the cluster")
	f.StringVar(&s.clusterID, "cluster-id", "", "name of the cluster (default: Liqo's cluster ID)")
	f.StringVar(&s.token, "join", os.Getenv("BOURSE_JOIN"),
		"join token of the broker's operator (also BOURSE_JOIN); empty if the cluster has already joined")
	f.StringVar(&s.brokerURL, "broker-url", "", "URL of the broker, https://HOST:PORT (default: the one in the token)")
	f.IntVar(&s.share, "share", 0,
		"percentage of the nodes' allocatable resources that others may reserve, 0 to 100; 0: share nothing, and "+
			"create no SharingPolicy")
	amountsVar(f, &s.hub, "hub",
		"lend on what this cluster borrows, and none of its own nodes: NAME=AMOUNT of what VirtualNodePool "+
			"upstream keeps, such as cpu=400,memory=1600Gi")
	amountsVar(f, &s.caps, "cap", "upper bound for a shared resource: NAME=AMOUNT, may be repeated")
	f.StringSliceVar(&s.visibleTo, "visible-to", nil, "clusters that may see this one (default: every member)")
	f.StringVar(&s.allow, "allow", "",
		"CEL expression over consumer and request that a reservation must satisfy, such as 'consumer.region == "+
			"\"eu\"' (default: none)")
	f.StringVar(&s.connector, "connector-url", "",
		"URL of the connector, where clusters that know this one deal with it without a broker (default: no connector)")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the objects and apply nothing")
	f.BoolVar(&s.yes, "yes", false, "ask nothing and apply the objects")
	return f
}

// terminal reports whether file is a terminal.
func terminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

func (s *start) checkName() error {
	if s.clusterID == "" {
		return nil
	}
	return market.ValidCluster("--cluster-id", s.clusterID)
}

func (s *start) checkToken() error {
	if s.token == "" {
		return nil
	}
	if _, err := join.ParseToken(s.token); err != nil {
		return api.Invalid("--join", "%s", err).Fix("paste the whole output of the operator's `bourse broker token create`")
	}
	return nil
}

func (s *start) checkConnector() error {
	if s.connector != "" && !strings.HasPrefix(s.connector, "https://") {
		return api.Invalid("--connector-url", "%.80q is not an https URL", s.connector).
			Fix("write https://bourse.milan.example:7444")
	}
	return nil
}

func (s *start) checkImage() error { return checkImage(s.image) }

// checkImage demands an image. There is no default: a registry that is not the admin's could get another owner.
func checkImage(image string) error {
	if image == "" {
		return api.Invalid("--image", "it names no image, and none is published").
			Fix("build one, push it to your registry and name it: --image REGISTRY/bourse:TAG (docs/images.md)")
	}
	if strings.ContainsFunc(image, unicode.IsSpace) {
		return api.Invalid("--image", "%.80q is no image", image).Fix("write REGISTRY/bourse:TAG")
	}
	return nil
}

// check reports the first answer that is not valid.
func (s *start) check() error {
	for _, err := range []error{s.checkName(), s.checkToken(), s.checkConnector()} {
		if err != nil {
			return err
		}
	}
	policy, err := s.sharing()
	if err != nil || policy == nil {
		return err
	}
	for _, name := range policy.VisibleTo.Clusters {
		if err := market.ValidCluster("--visible-to", name); err != nil {
			return err
		}
	}
	return sharing.Check(policy)
}

// sharing makes the SharingPolicy from the answers. It is nil if nothing is shared.
func (s *start) sharing() (*api.Sharing, error) {
	if s.share < 0 || s.share > 100 {
		return nil, api.Invalid("--share", "%d is not a percentage", s.share).Fix("give 0 to 100")
	}
	if len(s.hub) > 0 {
		return s.lendsOn()
	}
	if s.share == 0 {
		if len(s.caps) > 0 || len(s.visibleTo) > 0 || s.allow != "" {
			return nil, api.Invalid("--share", "nothing is shared, but --cap, --visible-to or --allow is given").
				Fix("say how much to share: --share 50")
		}
		return nil, nil
	}
	pool := api.PoolPolicy{Name: api.GeneralPool, Percentage: new(int32(s.share)), Caps: s.caps}
	return &api.Sharing{Terms: api.Terms{VisibleTo: api.Audience{Clusters: s.visibleTo}, Allow: s.allow},
		Pools: []api.PoolPolicy{pool}}, nil
}

// lendsOn makes the SharingPolicy of a hub.
func (s *start) lendsOn() (*api.Sharing, error) {
	switch {
	case s.share > 0:
		return nil, api.Invalid("--share", "a hub lends none of its own nodes").Fix("leave out --share or --hub")
	case s.withoutLiqo:
		return nil, api.Invalid("--hub", "a hub needs Liqo").Fix("leave out --without-liqo or --hub")
	case len(s.clusterID) > liqo.MaxHubID:
		return nil, api.Invalid("--cluster-id", "the ID of a hub has at most %d characters", liqo.MaxHubID).
			Fix("install Liqo with a shorter clusterID")
	}
	return &api.Sharing{
		Terms: api.Terms{VisibleTo: api.Audience{Clusters: s.visibleTo}, Allow: s.allow},
		Pools: []api.PoolPolicy{{Name: api.GeneralPool, Caps: s.caps, VirtualNodes: &api.VirtualNodes{
			Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{api.VirtualNodePoolLabel: install.Upstream}}}}},
	}, nil
}

// gathers makes the VirtualNodePool of a hub, nil if this is none.
func (s *start) gathers() *api.VirtualNodePoolSpec {
	if len(s.hub) == 0 {
		return nil
	}
	return &api.VirtualNodePoolSpec{
		Demand: api.DemandFixed, Min: s.hub, Max: s.hub, Template: api.ReservationTemplate{Relend: true},
		Offload: api.PoolOffload{Reflect: &api.Reflect{Secrets: api.ReflectAll}},
	}
}

// installation makes the installation from the answers.
func (s *start) installation() (install.Installation, error) {
	if err := s.check(); err != nil {
		return install.Installation{}, err
	}
	if err := s.checkImage(); err != nil {
		return install.Installation{}, err
	}
	i := install.Installation{Namespace: s.namespace, Image: s.image, Liqo: !s.withoutLiqo, Join: s.token,
		Connector: s.connector != "", Gathers: s.gathers()}
	i.Sharing, _ = s.sharing()
	for _, arg := range [][2]string{{"--cluster-id", s.clusterID},
		{"--broker-url", s.brokerURL}, {"--connector-url", s.connector}} {
		if arg[1] != "" {
			i.Args = append(i.Args, arg[0]+"="+arg[1])
		}
	}
	if s.withoutLiqo {
		i.Args = append(i.Args, "--without-liqo")
	}
	return i, nil
}

// start prints the objects, and applies them if the admin agrees.
func (sh *shell) start(ctx context.Context, s *start, agreed func(string) bool) error {
	i, err := s.installation()
	if err != nil {
		return err
	}
	var config *rest.Config
	if !s.dryRun {
		if config, err = kubernetes(s.kubeconfig); err != nil && s.yes {
			return err
		}
	}
	if !s.yes {
		for _, o := range i.Objects() {
			if err := sh.writeObject(o, ""); err != nil {
				return err
			}
		}
	}
	switch {
	case s.dryRun:
		return nil
	case config == nil || !s.yes && !agreed("Apply this to the cluster at "+config.Host+"?"):
		fmt.Fprintln(sh.progress,
			"Nothing was applied. To apply the objects: bourse init ... --yes, or bourse init ... --dry-run "+
				"| kubectl apply -f -")
		return nil
	}
	if err := i.Apply(ctx, config, func(done string) { fmt.Fprintln(sh.progress, done) }); err != nil {
		return err
	}
	fmt.Fprintf(sh.progress,
		"The agent is starting. See: kubectl -n %[1]s rollout status deployment bourse-agent; kubectl get sharingpolicy\n"+
			"To let a group reach it: kubectl -n %[1]s create rolebinding bourse-port-forward --role=bourse-port-forward "+
			"--group=GROUP\n", s.namespace)
	return nil
}
