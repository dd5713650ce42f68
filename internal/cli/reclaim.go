package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/client/cluster"
)

func (sh *shell) reclaimCommand() *cobra.Command {
	return sh.asksFirst(&cobra.Command{
		Use: "reclaim CONTRACT...", GroupID: "use", Short: "Take back sold contracts, with the notice of their plans",
		Long: "If a plan has a notice (spot), its seller can take a contract back before its end. The buyer is notified\n" +
			"at once. The contract ends after the notice, on both sides. This cannot be undone. Without a notice,\n" +
			"ending a contract early is a breach (bourse evict).",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, dealNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			err := sh.ask(ctx, "Take back "+strings.Join(args, ", ")+"? The buyer is notified at once.")
			if err != nil {
				return err
			}
			for _, id := range args {
				r, err := c.Reclaim(ctx, id)
				if err != nil {
					return err
				}
				fmt.Fprintln(sh.progress, id, "ends at", r.At.UTC().Format(time.RFC3339))
			}
			return nil
		}),
	})
}

func dealNames(ctx context.Context, c *cluster.Client) (names []string, err error) {
	items, err := c.Contracts(ctx)
	for _, d := range items {
		if !d.Payload.Status.State.Over() {
			names = append(names, d.Payload.Spec.Reservation)
		}
	}
	return names, err
}
