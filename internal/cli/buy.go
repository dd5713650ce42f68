package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/money"
)

func (sh *shell) buyCommand() *cobra.Command {
	w, units := &wish{}, int64(0)
	cmd := &cobra.Command{
		Use: "buy SELLER/OFFER/PLAN", GroupID: "use", Short: "Buy units of a plan that another cluster offers",
		Long: "Buy reads the offer, prints the cost, and creates a ResourceRequest for exactly that version of the\n" +
			"offer. If the seller changes the offer before both clusters have signed, you buy nothing. What both\n" +
			"signed is a Contract: bourse contracts.",
		Example: "  bourse buy milan/web/small --for 24h\n  bourse buy milan/gpu/a100 --units 2 --for 8h --dry-run",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, planNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("units") && units < 1 {
				return api.Invalid("--units", "%d is not a number of units", units).
					Fix("buy 1 or more; without --units you buy as few as the plan sells")
			}
			if vias[w.via] == "" {
				return api.Invalid("--via", "%.40q is no way to buy", w.via).Fix("use auto, direct or broker")
			}
			c, err := sh.agentClient()
			if err != nil {
				return err
			}
			if err := sh.purchase(cmd.Context(), c, args[0], units, &w.Request); err != nil {
				return err
			}
			return sh.place(cmd.Context(), c, w)
		},
	}
	f, r := cmd.Flags(), &w.Request
	optionalDurationVar(f, &r.Duration, "for", "how long (default "+api.DefaultDuration+")")
	f.Int64Var(&units, "units", 0, "how many units of the plan (default: the smallest number that it sells)")
	priceVar(f, &r.MaxPrice, "max-price", "maximum price of all units together, such as 3EUR/hour")
	f.StringVar(&w.via, "via", "auto",
		"where to buy: direct (at the seller's connector), broker, or auto (direct if the connector answers)")
	w.useFlags(cmd)
	return cmd
}

// vias are the values of --via.
var vias = map[string]api.Via{"auto": api.ViaAuto, "direct": api.ViaDirect, "broker": api.ViaBroker}

// offered returns the current version of an offer and one of its plans, named SELLER/OFFER/PLAN.
// Errors: Invalid, NotFound.
func offered(ctx context.Context, c *cluster.Client, id string) (listing, *api.Plan, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return listing{}, nil, api.Invalid("PLAN", "%q does not name a plan", id).
			Fix("write SELLER/OFFER/PLAN, as bourse catalog prints it")
	}
	l, err := c.Offer(ctx, parts[0], parts[1])
	if err != nil {
		return l, nil, err
	}
	plan := l.Payload.Offer.Plan(parts[2])
	if plan == nil {
		return l, nil, api.Errorf(api.CodeNotFound, "offer %s has no plan %q", l.ID, parts[2]).
			FixBy("see", "bourse", "catalog", l.ID)
	}
	return l, plan, nil
}

// purchase makes a request buy a plan of the current version of its offer.
func (sh *shell) purchase(
	ctx context.Context, c *cluster.Client, id string, units int64, r *api.Request,
) error {
	l, plan, err := offered(ctx, c, id)
	if err != nil {
		return err
	}
	r.Purchase = &api.Purchase{Seller: l.Payload.Seller, Offer: l.Payload.Name, Plan: plan.Name,
		Units: units, Digest: l.Payload.Digest}
	duration := api.DurationOf(r.Duration)
	if units == 0 {
		if units = 1; plan.Units != nil {
			units = plan.Units.Min
		}
		r.Purchase.Units = units
	}
	price, err := money.Parse("price", plan.Price)
	if err != nil {
		return err
	}
	comes := "it is free"
	if !price.Free() {
		cost := money.Text(price.Cost(units, time.Now(), duration), price.Currency)
		comes = fmt.Sprintf("at %s, that costs %s %s", price.Text(), cost, price.Currency)
	}
	fmt.Fprintf(sh.progress, "%d of %s (%s a unit) for %s: %s\n",
		units, id, explain.Sizes(plan.Resources), explain.Duration(duration), comes)
	return nil
}
