package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
)

func (sh *shell) uninstallCommand() *cobra.Command {
	r := install.Removal{Tell: func(step string) { fmt.Fprintln(sh.out, step) }}
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "uninstall", GroupID: "run", Short: "Remove Bourse from a member cluster", Args: cobra.NoArgs,
		Long: "Uninstall removes the agent, its permissions, its policies and its CRDs. It needs the kubeconfig of an\n" +
			"admin. Release all reservations first, or use --keep-peerings. Then Liqo's objects stay, like those of\n" +
			"a peering made by hand. Evict the clusters that borrow here first, because the\n" +
			"admission policies are removed. You can run uninstall again.\n" +
			"What Helm or Argo CD installed they remove. It tells the commands; --purge then removes what they left.",
		Example: "  bourse uninstall --dry-run\n  bourse uninstall --keep-peerings --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := kubernetes(kubeconfig)
			if err != nil {
				return err
			}
			if !r.DryRun {
				if err := sh.ask(cmd.Context(), "Remove Bourse from the cluster at "+config.Host+"?"); err != nil {
					return err
				}
			}
			return install.Uninstall(cmd.Context(), config, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster's admin (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&r.Namespace, "namespace", api.Namespace, "namespace of the agent")
	f.StringVar(&r.LiqoNamespace, "liqo-namespace", "liqo", "namespace of Liqo")
	f.BoolVar(&r.KeepPeerings, "keep-peerings", false, "keep what this cluster borrows, under Liqo alone")
	f.BoolVar(&r.Purge, "purge", false, "also remove what Helm or Argo CD left: CRDs with all objects, policies, roles")
	f.BoolVar(&r.Wait, "wait", false, "wait until the agent has closed the peerings that nothing uses")
	f.BoolVar(&r.DryRun, "dry-run", false, "list what would be removed")
	return sh.asksFirst(cmd)
}
