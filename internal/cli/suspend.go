package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) suspendCommand() *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "suspend CLUSTER", GroupID: "use", Short: "Lend another cluster nothing more; its existing reservations stay",
		Long: "Your cluster refuses new reservations, larger sizes and later ends for the other cluster, and its Liqo admits none of its new\n" +
			"pods. Running pods stay. Reservations still end at their time. Hand-made peerings are not affected. Both sides show the\n" +
			"suspension. It is stored in the Peer of that name (spec.suspend), so you can also set it with GitOps. It works without the\n" +
			"broker. To end the reservations: bourse evict CLUSTER.",
		Example: "  bourse suspend rome --reason 'the bill of May is open'\n  bourse resume rome",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			if err := sh.checkClusters(ctx, c, "", false, args...); err != nil {
				return err
			}
			p, err := c.Suspend(ctx, args[0], reason)
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, p)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason that the other cluster reads, at most 256 characters")
	return cmd
}

func (sh *shell) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume CLUSTER", GroupID: "use", Short: "End the suspension of another cluster",
		Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Resume(ctx, args[0])
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, p)
		}),
	}
}
