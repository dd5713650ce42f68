package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/journal"
)

// Main runs the program and returns its exit code.
func Main(args []string, out, progress io.Writer) int {
	return execute(&shell{out: onScreen(out), progress: onScreen(progress)}, args)
}

// execute runs a command and returns its exit code.
func execute(sh *shell, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	progress := sh.progress
	root := sh.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if _, refused := errors.AsType[*journal.RefusedError](err); refused {
		err = api.Errorf(api.CodeConflict, "%s", err)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = api.Errorf(api.CodeUnavailable, "interrupted").Fix("what was written stays, and the agent continues with it")
	}
	if _, away := errors.AsType[*pgconn.ConnectError](err); away {
		err = api.Errorf(api.CodeUnavailable, "%s", err).At("--store").
			Fix("check that PostgreSQL runs, and the user, the password and the database")
	}
	e, _ := errors.AsType[*api.Error](err)
	if e != nil {
		e.Field = flagOf(cmd, e.Field)
	}
	writeError(progress, err)
	if e != nil {
		return api.Codes[e.Code].Exit
	}
	return 1
}

// writeError writes an error, and the decision that explains it.
func writeError(out io.Writer, err error) {
	fmt.Fprintln(out, "error:", err)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Decision != nil {
		writeLines(out, explain.Decision(*e.Decision, nil).Lines()...)
	}
}

// flagOf returns the flag of a command that sets a field of the API: --max-price for
// request.maxPrice. It returns the field itself if no flag sets it.
func flagOf(cmd *cobra.Command, field string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(field, "request."), "purchase.")
	name, _, _ = strings.Cut(name, ".")
	if flag, other := otherFlags[name]; other {
		name = flag
	}
	name = capital.ReplaceAllStringFunc(name, func(letter string) string { return "-" + strings.ToLower(letter) })
	if cmd.Flags().Lookup(name) == nil {
		return field
	}
	return "--" + name
}

// otherFlags are the flags that are not named as the field that they set.
var otherFlags = map[string]string{"resources": "resource", "properties": "property", "duration": "for"}

var capital = regexp.MustCompile("[A-Z]")

// shell holds what every command shares.
type shell struct {
	out, progress io.Writer
	server        string
	context       string // of the kubeconfig
	kubeconfig    string
	namespace     string
	allNamespaces bool
	cluster       *cluster.Client // as the user of the kubeconfig, once it is used
	watching      *watching       // nil: without --watch
	operatorCert  string
	output        string
	fields        []field // of -o jsonpath and custom-columns
	documents     bool
	yes           bool // --yes: do not ask
}

func init() {
	cobra.EnableCommandSorting = false // help lists first what a new user needs first
}

// Root is the whole command tree.
func Root(out, progress io.Writer) *cobra.Command {
	return (&shell{out: out, progress: progress}).root()
}

func (sh *shell) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "bourse",
		Short: "A resource broker for Liqo federations",
		Long: "Bourse is a resource broker for Kubernetes clusters that run Liqo. Clusters find each other, agree on\n" +
			"resources, and are held to the agreement.\n" +
			"Start with: bourse demo",
		SilenceUsage: true, SilenceErrors: true, PersistentPreRunE: sh.checkForm, Version: version(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(sh.out)
	root.SetErr(sh.progress)
	root.PersistentFlags().StringVar(&sh.server, "server", os.Getenv("BOURSE_SERVER"),
		"broker to talk to, or agent to ask: https://HOST:PORT or unix:///SOCKET (also BOURSE_SERVER); or an agent's "+
			"--listen, http://HOST:PORT, with its token in BOURSE_TOKEN; default for users: the kubeconfig")
	root.PersistentFlags().StringVarP(&sh.output, "output", "o", "table",
		"output format: table, wide, json, yaml, name, jsonpath=PATH or custom-columns=TITLE:PATH,...")
	root.PersistentFlags().BoolVar(&sh.documents, "show-documents", false,
		"with -o json or yaml, show signed documents (JWS)")
	root.AddGroup(&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "use", Title: "Use resources of other clusters:"},
		&cobra.Group{ID: "run", Title: "Run a federation:"})
	root.AddCommand(sh.demoCommand(), sh.clustersCommand(), sh.reserveCommand(), sh.whyCommand(), sh.releaseCommand())
	for _, first := range root.Commands() {
		first.GroupID = "start"
	}
	root.AddCommand(
		sh.acceptCommand(), sh.approvalsCommand(), sh.approveCommand(), sh.auditCommand(), sh.brokersCommand(),
		sh.buyCommand(), sh.catalogCommand(), sh.confirmCommand(), sh.contractCommand(), sh.contractsCommand(),
		sh.counterCommand(), sh.declineCommand(), sh.describeCommand(), sh.doctorCommand(), sh.evictCommand(),
		sh.extendCommand(), sh.historyCommand(), sh.impactCommand(), sh.offerCommand(), sh.peersCommand(), sh.proposalsCommand(), sh.proposeCommand(),
		sh.reclaimCommand(), sh.refuseCommand(), sh.reservationsCommand(), sh.resizeCommand(), sh.resumeCommand(),
		sh.sharingCommand(),
		sh.statusCommand(), sh.suspendCommand(), sh.trustCommand(), sh.uiCommand(), sh.usageCommand(),
		sh.vnpCommand(),
		sh.agentCommand(), sh.authCommand(), sh.brokerCommand(), sh.initCommand(), sh.rootCommand(), sh.uninstallCommand(),
		sh.versionCommand(),
	)
	for _, c := range root.Commands() {
		if (c.GroupID == "start" || c.GroupID == "use" || c.Name() == "auth") && c.Name() != "demo" {
			sh.addAccess(c.PersistentFlags())
		}
	}
	sh.strict(root)
	wrapHelp(root)
	return root
}

func (sh *shell) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version and the protocol",
		Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(sh.out, version())
			return err
		}}
}

func version() string {
	text := fmt.Sprintf("bourse %s, protocol %d, API %s/%s", client.Version(), api.Protocol, api.Group, api.Version)
	if commit := client.Commit(); commit != "" {
		text += ", commit " + commit
	}
	return text
}

// RuntimeDir is the default folder for the sockets of this user's agents and brokers. Nobody else
// can write to it.
func RuntimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "bourse")
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "bourse", "run")
	}
	return filepath.Join(os.TempDir(), "bourse-"+strconv.Itoa(os.Getuid()))
}

func agentSocket() string  { return filepath.Join(RuntimeDir(), "agent.sock") }
func brokerSocket() string { return filepath.Join(RuntimeDir(), "broker.sock") }

// complete completes the first argument with the names that list returns, and each further argument
// of a command that takes several.
func complete[C any](connect func() (C, error),
	list func(context.Context, C) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := connect()
		if err != nil || len(args) > 0 && !strings.Contains(cmd.Use, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if c, ok := any(c).(*cluster.Client); ok {
			defer func() { _ = c.Close(context.WithoutCancel(cmd.Context())) }() // the agent ends a session that stays
		}
		names, _ := list(cmd.Context(), c)
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

var clusterNames = idsOf((*cluster.Client).Clusters)
