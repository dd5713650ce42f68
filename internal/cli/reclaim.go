package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) reclaimCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reclaim CONTRACT...", GroupID: "use", Short: "Take back what your cluster sold, after the notice that its plan has",
		Long: "A plan with a notice (spot) lets its seller take a contract back before its end. The buyer is told at once, and the contract ends when\n" +
			"the notice is over, on both sides. A plan without one lasts to its end: what ends before is a breach (bourse evict).",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: sh.complete(dealNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			for _, id := range args {
				r, err := c.Reclaim(cmd.Context(), id)
				if err != nil {
					return err
				}
				fmt.Fprintln(sh.progress, id, "ends at", r.At.UTC().Format(time.RFC3339))
			}
			return nil
		},
	}
}

func dealNames(ctx context.Context, c *client.Client) (names []string, err error) {
	items, err := c.Contracts(ctx)
	for _, d := range items {
		if !d.Payload.Status.State.Over() {
			names = append(names, d.Payload.Spec.Reservation)
		}
	}
	return names, err
}
