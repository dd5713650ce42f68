package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/install"
)

func (sh *shell) uninstallCommand() *cobra.Command {
	r := install.Removal{Tell: func(step string) { fmt.Fprintln(sh.out, step) }}
	var kubeconfig string
	yes := false
	cmd := &cobra.Command{
		Use: "uninstall", GroupID: "run", Short: "Remove Bourse from a member cluster", Args: cobra.NoArgs,
		Long: "Removes the agent, its rights, its policies and its kinds, with the rights of an admin's kubeconfig. With --keep-peerings\n" +
			"what this cluster borrows goes on: Liqo's objects stay as if they had been made by hand. Who borrows here is to be evicted before,\n" +
			"because our policies go, too. Without it, everything has to be released before.\n" +
			"It can be repeated.",
		Example: "  bourse uninstall --dry-run\n  bourse uninstall --keep-peerings --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := kubernetes(kubeconfig)
			if err != nil {
				return err
			}
			if !yes && !r.DryRun && !agrees(cmd.InOrStdin(), sh.progress, "Remove Bourse from the cluster at "+config.Host+"?") {
				return api.Errorf(api.CodeInvalid, "nothing was changed").Fix("say yes, or --yes; --dry-run lists what would be removed")
			}
			return install.Uninstall(cmd.Context(), config, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster's admin (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&r.Namespace, "namespace", api.Namespace, "namespace of the agent")
	f.StringVar(&r.LiqoNamespace, "liqo-namespace", "liqo", "namespace of Liqo")
	f.BoolVar(&r.KeepPeerings, "keep-peerings", false, "leave what runs to Liqo")
	f.BoolVar(&r.DryRun, "dry-run", false, "list what would be removed")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}
