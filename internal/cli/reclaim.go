package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) reclaimCommand() *cobra.Command {
	var given []string
	return sh.takesDigest(&cobra.Command{
		Use: "reclaim CONTRACT...", GroupID: "use", Short: "Take back sold contracts, with the notice of their plans",
		Long: "If a plan has a notice (spot), its seller can take a contract back before its end. The buyer is notified\n" +
			"at once. The contract ends after the notice, on both sides. This cannot be undone. Without a notice,\n" +
			"ending a contract early is a breach (bourse evict).\n\n" +
			"Reclaim shows each contract and, at a terminal, asks. Elsewhere it takes back those whose digest you give\n" +
			"(bourse contracts -o wide).",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, dealNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			for _, id := range args {
				sold, err := c.Sold(ctx, id)
				if err != nil {
					return err
				}
				err = sh.agree(ctx, agreement{given: given, digest: sold.Payload.Status.Digest, shown: soldText(sold),
					question: "Take it back? The buyer is notified at once.", command: "bourse reclaim " + id})
				if err != nil {
					return err
				}
				r, err := c.Reclaim(ctx, sold)
				if err != nil {
					return err
				}
				fmt.Fprintln(sh.progress, id, "ends at", r.At.UTC().Format(time.RFC3339))
			}
			return nil
		}),
	}, &given, "bourse contracts -o wide")
}

// soldText returns what a seller takes back.
func soldText(d deal) string {
	t := d.Payload.Status.Terms
	return fmt.Sprintf("%s: %s bought %s of %s (%s) at %s until %s", d.Payload.Spec.Reservation, t.Buyer,
		explain.Count(int(t.Units), "unit"), explain.Plan(t), explain.Sizes(t.Resources), explain.Price(t.Price),
		explain.Time(new(due.End(d.Payload.Status))))
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
