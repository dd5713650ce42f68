package cli

import "github.com/spf13/cobra"

func (sh *shell) suspendCommand() *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "suspend CLUSTER", GroupID: "use", Short: "Lend another cluster nothing more, and let what it has go on",
		Long: "Your cluster refuses the other's new reservations, larger sizes and later ends, and its Liqo lets no new pods of it in. What\n" +
			"runs goes on, what ends, ends, and peerings made by hand are left alone. Both sides show it. It is kept in the Peer of that\n" +
			"name (spec.suspend), so that Git can say it, too; it works without the broker. To end what it has: bourse evict CLUSTER.",
		Example: "  bourse suspend rome --reason 'the bill of May is open'\n  bourse resume rome",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(clusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			p, err := c.Suspend(cmd.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return sh.awaitPeer(cmd.Context(), c, p)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in at most 256 characters: the other cluster is told")
	return cmd
}

func (sh *shell) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume CLUSTER", GroupID: "use", Short: "End a suspension of another cluster",
		Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(clusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			p, err := c.Resume(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return sh.awaitPeer(cmd.Context(), c, p)
		},
	}
}
