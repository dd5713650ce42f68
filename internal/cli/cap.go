package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
)

// capFlags adds the flags that bound how much a consumer may have. without is what holds without a flag.
func capFlags(f *pflag.FlagSet, c *api.Caps, reservations, pending int64, who, without string) {
	f.Int64Var(&c.Reservations, "max-reservations", reservations,
		"how many reservations "+who+" may have pending, held and reserved")
	f.Int64Var(&c.Pending, "max-pending", pending, "how many requests of "+who+" may wait for capacity at the same time")
	f.Int32Var(&c.Priority, "max-priority", 0, "highest priority for requests of "+who+" (0: "+without+")")
	amountsVar(f, &c.Resources, "max-resources",
		"amounts that "+who+" may have pending, held and reserved: NAME=AMOUNT, may be repeated (default: "+without+")")
}

func (sh *shell) capCommand() *cobra.Command {
	var caps api.Caps
	cmd := &cobra.Command{
		Use: "cap CLUSTER", Short: "Set how much one member may have pending, held and reserved", Args: cobra.ExactArgs(1),
		Long: "Cap sets bounds for one member, in place of the bounds for all members (flags of bourse broker). It\n" +
			"replaces earlier bounds of this member. Without flags the member has the bounds of all members. Existing\n" +
			"reservations stay.",
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			m, err := c.SetCaps(ctx, args[0], caps)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s may have at most: %s\n", m.ID,
				cmp.Or(explain.Caps(m.Payload.Caps), "what the broker allows every member"))
			return sh.showMembers([]api.Envelope[api.Member]{m})
		}),
	}
	capFlags(cmd.Flags(), &caps, 0, 0, "the member", "the bound for all members")
	return cmd
}
