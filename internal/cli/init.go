package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/install"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/market"
)

// start is what an admin answers before the first start of an agent, by flags or to questions.
type start struct {
	kubeconfig, namespace, image string
	clusterID, token, brokerURL  string
	withoutLiqo                  bool
	share                        int
	caps                         map[string]string
	visibleTo                    []string
	allow, connector             string
	yes, dryRun                  bool
}

func (sh *shell) initCommand() *cobra.Command {
	s := &start{}
	cmd := &cobra.Command{
		Use: "init", GroupID: "run", Short: "Make a cluster a member: ask what its agent must know, and start it", Args: cobra.NoArgs,
		Long: "Init asks what the agent of a cluster must be told: how the cluster is named, with which token it joins a broker, what it shares\n" +
			"and with whom. Every question has a flag; what a flag answers is not asked. Then it prints the objects (a Secret with the token, the\n" +
			"SharingPolicy, the agent's Deployment), and applies them if you say yes. Without a terminal nothing is asked, and without --yes\n" +
			"nothing is applied. Without an answer nothing is shared. It can be repeated: what it says replaces what it said before.",
		Example: "  bourse init\n  bourse init --join TOKEN --share 50 --cap nvidia.com/gpu=2 --visible-to rome,oslo --yes\n  bourse init --join TOKEN --without-liqo --dry-run > agent.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.dryRun && s.yes {
				return api.Invalid("--yes", "nothing is applied with --dry-run").Fix("leave one of them out")
			}
			in := bufio.NewReader(cmd.InOrStdin())
			if asks := terminal(cmd.InOrStdin()) && !s.yes; asks {
				if err := s.ask(in, sh.progress, cmd.Flags()); err != nil {
					return err
				}
			}
			return sh.start(cmd.Context(), s, func(question string) bool {
				return terminal(cmd.InOrStdin()) && agrees(in, sh.progress, question)
			})
		},
	}
	cmd.Flags().AddFlagSet(s.flags())
	return cmd
}

// flags are one for each question, and how it is all done.
func (s *start) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("init", pflag.ContinueOnError)
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster's admin (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&s.namespace, "namespace", api.Namespace, "namespace of the agent")
	f.StringVar(&s.image, "image", install.DefaultImage, "image of the agent")
	f.BoolVar(&s.withoutLiqo, "without-liqo", false, "do not wait for Liqo: the cluster is named by --cluster-id, else by the UID of kube-system")
	f.StringVar(&s.clusterID, "cluster-id", "", "name of the cluster (default: Liqo's cluster ID)")
	f.StringVar(&s.token, "join", os.Getenv("BOURSE_JOIN"), "join token of the broker's operator (also BOURSE_JOIN); empty: the cluster has joined before")
	f.StringVar(&s.brokerURL, "broker-url", "", "where the broker is, https://HOST:PORT (default: as the token says)")
	f.IntVar(&s.share, "share", 0, "percentage of what its nodes can allocate that others may reserve, 0 to 100; 0: nothing is shared, and no SharingPolicy is made")
	f.StringToStringVar(&s.caps, "cap", nil, "the most of a resource that is shared: NAME=AMOUNT, may be repeated")
	f.StringSliceVar(&s.visibleTo, "visible-to", nil, "clusters to which this one is shown (default: every member)")
	f.StringVar(&s.allow, "allow", "", "who may reserve what: a CEL expression, such as 'consumer.region == \"eu\"' (default: whoever sees it)")
	f.StringVar(&s.connector, "connector-url", "", "URL at which clusters that know this one deal with it without a broker (default: they do not)")
	f.BoolVar(&s.dryRun, "dry-run", false, "print the objects, apply nothing")
	f.BoolVar(&s.yes, "yes", false, "ask nothing, and apply")
	return f
}

// terminal says whether somebody sits there.
func terminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// ask asks for what no flag answers, each question until the answer can be. The end of the input is an error: nothing is guessed.
func (s *start) ask(in *bufio.Reader, out io.Writer, given *pflag.FlagSet) error {
	for _, q := range []struct {
		flag, question string
		moot           func() bool
		answer         func(string) error
	}{
		{"without-liqo", "Does this cluster run Liqo? [Y/n]", nil, s.answerLiqo},
		{"cluster-id", "How is it named in the federation? (empty: by Liqo's cluster ID, or by itself)", nil, func(text string) error { s.clusterID = text; return s.checkName() }},
		{"join", "The join token of the broker's operator? (empty: it has joined before)", nil, func(text string) error { s.token = text; return s.checkToken() }},
		{"broker-url", "Where is the broker? (empty: as the token says)", func() bool { return s.token == "" }, func(text string) error { s.brokerURL = text; return nil }},
		{"share", "How much of its nodes may others reserve, in percent? (empty: nothing)", nil, s.answerShare},
		{"cap", "At most how much of single resources, such as cpu=16,memory=64Gi? (empty: no such bound)", s.sharesNothing, s.answerCaps},
		{"visible-to", "To which clusters is it shown, such as rome,oslo? (empty: every member)", s.sharesNothing, func(text string) error { s.visibleTo = list(text); return s.check() }},
		{"allow", "Who may reserve, as a CEL expression over consumer and request? (empty: whoever sees it)", s.sharesNothing, func(text string) error { s.allow = text; return s.check() }},
		{"connector-url", "At which URL do others reach it while the broker is away? (empty: not at all)", nil, func(text string) error { s.connector = text; return s.checkConnector() }},
	} {
		if given.Changed(q.flag) || q.moot != nil && q.moot() {
			continue
		}
		for {
			fmt.Fprintf(out, "%s ", q.question)
			line, err := in.ReadString('\n')
			if err != nil {
				fmt.Fprintln(out)
				return api.Errorf(api.CodeInvalid, "--%s has no answer; nothing was changed", q.flag).Fix("answer, or give the flag")
			}
			wrong := q.answer(strings.TrimSpace(line))
			if wrong == nil {
				break
			}
			fmt.Fprintln(out, wrong)
		}
	}
	return nil
}

func (s *start) sharesNothing() bool { return s.share == 0 }

func (s *start) answerLiqo(text string) error {
	switch strings.ToLower(text) {
	case "", "y", "yes":
		s.withoutLiqo = false
	case "n", "no":
		s.withoutLiqo = true
	default:
		return api.Invalid("--without-liqo", "%.40q is neither yes nor no", text).Fix("answer y or n")
	}
	return nil
}

func (s *start) answerShare(text string) (err error) {
	if s.share, err = strconv.Atoi(cmp.Or(strings.TrimSuffix(text, "%"), "0")); err != nil {
		return api.Invalid("--share", "%.40q is not a percentage", text).Fix("give 0 to 100")
	}
	return s.check()
}

func (s *start) answerCaps(text string) error {
	s.caps = nil
	for _, one := range list(text) {
		name, amount, ok := strings.Cut(one, "=")
		if !ok {
			return api.Invalid("--cap", "%.80q is not NAME=AMOUNT", one).Fix("write cpu=16,memory=64Gi")
		}
		if s.caps == nil {
			s.caps = map[string]string{}
		}
		s.caps[name] = amount
	}
	return s.check()
}

// list splits an answer at its commas.
func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

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
		return api.Invalid("--join", "%s", err).Fix("paste what the operator's `bourse broker token` printed, whole")
	}
	return nil
}

func (s *start) checkConnector() error {
	if s.connector != "" && !strings.HasPrefix(s.connector, "https://") {
		return api.Invalid("--connector-url", "%.80q is not an https URL", s.connector).Fix("write https://bourse.milan.example:7444")
	}
	return nil
}

// check says what of the answers so far cannot be.
func (s *start) check() error {
	for _, err := range []error{s.checkName(), s.checkToken(), s.checkConnector()} {
		if err != nil {
			return err
		}
	}
	sharing, err := s.sharing()
	if err != nil || sharing == nil {
		return err
	}
	for _, name := range sharing.VisibleTo.Clusters {
		if err := market.ValidCluster("--visible-to", name); err != nil {
			return err
		}
	}
	return agent.CheckSharing(sharing)
}

// sharing is the SharingPolicy that the answers come to; nil: none.
func (s *start) sharing() (*api.Sharing, error) {
	if s.share < 0 || s.share > 100 {
		return nil, api.Invalid("--share", "%d is not a percentage", s.share).Fix("give 0 to 100")
	}
	if s.share == 0 {
		if len(s.caps) > 0 || len(s.visibleTo) > 0 || s.allow != "" {
			return nil, api.Invalid("--share", "nothing is shared, so nobody can have it").Fix("say how much: --share 50")
		}
		return nil, nil
	}
	pool := api.PoolPolicy{Name: api.GeneralPool, Percentage: new(int32(s.share))}
	var err error
	if pool.Caps, err = amounts("--cap", s.caps); err != nil {
		return nil, err
	}
	return &api.Sharing{Terms: api.Terms{VisibleTo: api.Audience{Clusters: s.visibleTo}, Allow: s.allow}, Pools: []api.PoolPolicy{pool}}, nil
}

// installation is what the answers come to.
func (s *start) installation() (install.Installation, error) {
	if err := s.check(); err != nil {
		return install.Installation{}, err
	}
	i := install.Installation{Namespace: s.namespace, Image: s.image, Join: s.token, Connector: s.connector != ""}
	i.Sharing, _ = s.sharing()
	for _, arg := range [][2]string{{"--cluster-id", s.clusterID}, {"--broker-url", s.brokerURL}, {"--connector-url", s.connector}} {
		if arg[1] != "" {
			i.Args = append(i.Args, arg[0]+"="+arg[1])
		}
	}
	if s.withoutLiqo {
		i.Args = append(i.Args, "--without-liqo")
	}
	if s.namespace != api.Namespace {
		i.Args = append(i.Args, "--namespace="+s.namespace)
	}
	return i, nil
}

// start prints what the answers come to, and applies it if that is wanted.
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
			fields, err := install.Manifest(o)
			if err != nil {
				return err
			}
			data, err := yaml.Marshal(fields.Object)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.out, "---\n%s", data)
		}
	}
	switch {
	case s.dryRun:
		return nil
	case config == nil || !s.yes && !agreed("Apply this to the cluster at "+config.Host+"?"):
		fmt.Fprintln(sh.progress, "Nothing was applied. To apply it: bourse init ... --yes, or bourse init ... --dry-run | kubectl apply -f -")
		return nil
	}
	if err := i.Apply(ctx, config, func(done string) { fmt.Fprintln(sh.progress, done) }); err != nil {
		return err
	}
	fmt.Fprintf(sh.progress, "The agent starts. See: kubectl -n %s rollout status deployment bourse-agent; kubectl get sharingpolicy\n", s.namespace)
	return nil
}
