package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// Main runs the program and returns its exit code.
func Main(args []string, out, progress io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	root := Root(out, progress)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(progress, "error:", err)
	if e, ok := errors.AsType[*api.Error](err); ok {
		if e.Decision != nil {
			explain(progress, *e.Decision)
		}
		return api.Codes[e.Code].Exit
	}
	return 1
}

// shell holds what every command shares.
type shell struct {
	out, progress io.Writer
	server        string
	operatorCert  string
	output        string
}

// Root is the whole command tree.
func Root(out, progress io.Writer) *cobra.Command {
	sh := &shell{out: out, progress: progress}
	root := &cobra.Command{
		Use:   "bourse",
		Short: "A resource broker for Liqo federations",
		Long: "Bourse is a resource broker for Kubernetes clusters that run Liqo. Clusters find each other, agree on resources,\n" +
			"and are held to the agreement.\n" +
			"Start with: bourse demo",
		SilenceUsage: true, SilenceErrors: true, PersistentPreRunE: sh.checkForm, Version: version(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(out)
	root.SetErr(progress)
	root.PersistentFlags().StringVar(&sh.server, "server", os.Getenv("BOURSE_SERVER"),
		"agent or broker to talk to: https://HOST:PORT or unix:///SOCKET (also BOURSE_SERVER)")
	root.PersistentFlags().StringVarP(&sh.output, "output", "o", "table", "output format: table, wide, json, yaml or name")
	fixed(root, "output", forms...)
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use resources of other clusters:"},
		&cobra.Group{ID: "run", Title: "Run a federation:"})
	root.AddCommand(
		sh.clustersCommand(), sh.catalogCommand(), sh.buyCommand(), sh.offerCommand(), sh.contractsCommand(), sh.contractCommand(), sh.usageCommand(), sh.reserveCommand(), sh.reservationsCommand(), sh.describeCommand(), sh.whyCommand(), sh.confirmCommand(), sh.approvalsCommand(), sh.approveCommand(), sh.refuseCommand(), sh.reclaimCommand(), sh.resizeCommand(), sh.extendCommand(), sh.releaseCommand(), sh.statusCommand(), sh.trustCommand(), sh.brokersCommand(), sh.doctorCommand(), sh.auditCommand(), sh.evictCommand(), sh.suspendCommand(), sh.resumeCommand(),
		sh.brokerCommand(), sh.initCommand(), sh.agentCommand(), sh.demoCommand(), sh.rootCommand(), sh.uninstallCommand(), sh.versionCommand(),
	)
	strict(root)
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
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return fmt.Sprintf("bourse %s, protocol %d, API %s/%s", version, api.Protocol, api.Group, api.Version)
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

// complete completes the first argument with the names that list returns.
func (sh *shell) complete(connect func() (*client.Client, error),
	list func(context.Context, *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := connect()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := list(cmd.Context(), c)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// fixed completes the values of a flag.
func fixed(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func clusterNames(ctx context.Context, c *client.Client) ([]string, error) {
	clusters, err := c.Clusters(ctx)
	return ids(clusters), err
}

func ids[T any](items []api.Envelope[T]) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.ID
	}
	return names
}
