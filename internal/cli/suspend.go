package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/client/cluster"
)

func (sh *shell) suspendCommand() *cobra.Command {
	reason, unknown := "", false
	cmd := &cobra.Command{
		Use: "suspend CLUSTER", GroupID: "use", Short: "Lend another cluster nothing more; its existing reservations stay",
		Long: "Your cluster refuses new reservations, larger sizes and later ends for the other cluster, and its Liqo\n" +
			"admits none of its new pods. Running pods stay. Reservations still end at their time. Hand-made peerings\n" +
			"are not affected. Both sides show the suspension. It is stored in the Peer of that name (spec.suspend),\n" +
			"so you can also set it with GitOps. It works without the broker. To end the reservations: bourse evict\n" +
			"CLUSTER. A name that no cluster has is refused, unless you add --unknown.",
		Example: "  bourse suspend rome --reason 'the bill of May is open'\n  bourse resume rome",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			fix := "to suspend a cluster that may appear later, add --unknown"
			if unknown {
				fix = ""
			}
			if err := sh.checkClusters(ctx, c, "", fix, args...); err != nil {
				return err
			}
			p, err := c.Suspend(ctx, args[0], reason)
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, p, false)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason that the other cluster reads, at most 256 characters")
	cmd.Flags().BoolVar(&unknown, "unknown", false, "also suspend a cluster that your cluster does not know yet")
	return cmd
}

func (sh *shell) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume CLUSTER", GroupID: "use", Short: "End the suspension of another cluster",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			if err := sh.checkClusters(ctx, c, "", "see: bourse trust", args...); err != nil {
				return err
			}
			p, err := c.Resume(ctx, args[0])
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, p, false)
		}),
	}
}
