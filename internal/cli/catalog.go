package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

type listing = api.Envelope[api.Listing]

func (sh *shell) catalogCommand() *cobra.Command {
	q, sort, uptime := api.CatalogQuery{}, "", 0.0
	cmd := &cobra.Command{
		Use: "catalog [WORD | SELLER/OFFER]", GroupID: "use", Short: "Search what other clusters sell",
		Long: "Catalog lists the plans that your cluster may buy: the resources of a unit, its price, and how many\n" +
			"units are left. You cannot buy from a seller that is silent; after a day its offers are hidden. While no\n" +
			"broker and no seller answers, the agent shows its own copy of the catalog, with its age. WORD is\n" +
			"searched in sellers, names, types, descriptions and labels. SELLER/OFFER shows one offer in full. With\n" +
			"--for, the cost for that time takes the place of the price; -o wide has both, and the sellers' regions.",
		Example: "  bourse catalog\n  bourse catalog --gpu a100 --for 8h --sort price\n" +
			"  bourse catalog --region eu --uptime 0.999\n  bourse catalog milan/web",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete(sh.agentClient, offerNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			switch order := api.CatalogOrder(sort); order {
			case "name", api.ByName:
			case api.ByPrice, api.ByRegion, api.ByUptime:
				q.Sort = order
			default:
				return api.Invalid("--sort", "%q is not an order", sort).Fix("use name, price, region or uptime")
			}
			if uptime < 0 || uptime > 1 {
				return api.Invalid("--uptime", "%g is not between 0 and 1", uptime).Fix("write 0.999 for 99.9 %%")
			}
			q.Uptime = int64(math.Round(uptime * 1e6))
			if len(args) == 1 {
				if seller, name, ok := strings.Cut(args[0], "/"); ok {
					offer, err := c.Offer(ctx, seller, name)
					if err != nil {
						return err
					}
					return sh.showOffer(offer)
				}
				q.Text = args[0]
			}
			found, err := c.Catalog(ctx, q)
			if err != nil {
				return err
			}
			return sh.showCatalog(found, q.For, noPlan(q))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.Seller, "seller", "", "only offers of this cluster")
	f.StringVar(&q.Type, "type", "", "only offers of this type, such as compute, gpu or storage")
	f.StringVar(&q.Region, "region", "", "only offers of sellers in this region")
	f.StringVar(&q.GPU, "gpu", "", "only plans with a GPU, of sellers that have a GPU whose name contains this")
	f.StringVar(&q.SellerGPU, "seller-gpu", "",
		"only sellers that have a GPU whose name contains this, also plans without a GPU")
	f.StringVar(&q.Currency, "currency", "", "only plans in this currency, and free plans")
	priceVar(f, &q.MaxPrice, "max-price",
		"only plans whose smallest purchase costs at most this, such as 3EUR/hour, for the time of --for")
	f.BoolVar(&q.Available, "available", false, "only plans that are not sold out")
	f.BoolVar(&q.Hidden, "hidden", false, "also offers of sellers that have been silent for more than a day")
	durationVar(f, &q.For, "for", 0,
		"only plans that are sold for this long, with the cost for that time (default: the cost of one hour)")
	f.Float64Var(&uptime, "uptime", 0,
		"only offers of sellers with at least this uptime over the last 30 days, such as 0.999")
	f.StringVar(&sort, "sort", "",
		"order: name (default), price (free plans first, then by currency), region, or uptime (highest first)")
	return sh.watchable(cmd)
}

func offerNames(ctx context.Context, c *cluster.Client) ([]string, error) {
	found, err := c.Catalog(ctx, api.CatalogQuery{})
	return ids(found), err
}

func planNames(ctx context.Context, c *cluster.Client) ([]string, error) {
	found, err := c.Catalog(ctx, api.CatalogQuery{Available: true})
	var names []string
	for _, l := range found {
		for _, p := range l.Payload.Offer.Plans {
			names = append(names, l.ID+"/"+p.Name)
		}
	}
	return names, err
}

// planOnSale is one plan of a listing.
type planOnSale struct {
	api.Listing
	plan api.Plan
	left api.PlanListing
}

// noPlan says that a query finds no plan.
func noPlan(q api.CatalogQuery) string {
	if q == (api.CatalogQuery{}) {
		return "No plan is on sale to this cluster. Where it looks for sellers: bourse brokers"
	}
	return "No plan on sale matches. To see all plans: bourse catalog"
}

// showCatalog writes one line for each plan, or none if there is no plan.
func (sh *shell) showCatalog(found []listing, d time.Duration, none string) error {
	if sh.encodes() {
		return sh.encode(found)
	}
	type P = api.Envelope[planOnSale]
	var plans []P
	for _, l := range found {
		for _, p := range l.Payload.Offer.Plans {
			if left, shown := l.Payload.Plans[p.Name]; shown {
				plans = append(plans, P{ID: l.ID + "/" + p.Name, Payload: planOnSale{l.Payload, p, left}})
			}
		}
	}
	forTime, cost := d > 0, "AN HOUR" // a user who names a time compares the costs for it
	if forTime {
		cost = strings.ToUpper(explain.Duration(d))
	}
	err := show(sh, plans, none, []column[planOnSale]{
		{"PLAN", false, func(p P) string { return p.ID }},
		{"A UNIT", false, func(p P) string { return explain.Sizes(p.Payload.plan.Resources) }},
		{"PRICE", forTime, func(p P) string { return explain.Price(p.Payload.plan.Price) }},
		{cost, !forTime, func(p P) string { return costText(p.Payload.left.Cost, p.Payload.plan.Price) }},
		{"LEFT", false, func(p P) string { return leftNow(p.Payload.Listing, p.Payload.left.Remaining) }},
		{"REGION", true, func(p P) string { return p.Payload.Properties.Region }},
		{"UPTIME", true, func(p P) string { return explain.Percent(p.Payload.Uptime) }},
		{"TYPE", true, func(p P) string { return p.Payload.Offer.Type }},
	})
	sh.reportCopies(found)
	return err
}

// leftNow returns how many units are left, as far as the agent knows.
func leftNow(l api.Listing, n int64) string {
	switch {
	case l.AsOf != nil:
		return leftText(n) + " (" + ago(l.AsOf.Time) + ")"
	case l.Fading != "":
		return "silent"
	}
	return leftText(n)
}

func ago(t time.Time) string {
	return explain.Duration(max(0, time.Since(t)).Round(time.Second)) + " ago"
}

// reportCopies reports how many offers come from the agent's copy, and how old the oldest is.
func (sh *shell) reportCopies(found []listing) {
	var oldest *metav1.Time
	old := 0
	for _, l := range found {
		if at := l.Payload.AsOf; at != nil {
			if old++; oldest == nil || at.Before(oldest) {
				oldest = at
			}
		}
	}
	if old > 0 {
		fmt.Fprintf(sh.progress,
			"%d of %d offers are from this agent's copy of the catalog, up to %s old: neither a broker nor the seller answers "+
				"now. See: bourse doctor\n",
			old, len(found), strings.TrimSuffix(ago(oldest.Time), " ago"))
	}
}

func costText(cost string, p *api.Price) string {
	if cost == "" || p == nil {
		return ""
	}
	return cost + " " + p.Currency
}

// leftText returns how many units are left. From 1000 on only capacity limits them, so the number
// means little.
func leftText(n int64) string {
	if n >= 1000 {
		return "plenty"
	}
	return strconv.FormatInt(n, 10)
}

// showOffer writes all of an offer.
func (sh *shell) showOffer(l listing) error {
	if sh.encodes() {
		return sh.encode(l)
	}
	o := l.Payload.Offer
	fmt.Fprintf(sh.out, "%s  version %d\n%s\n", l.ID, l.Payload.Version, l.Payload.Digest)
	if o.Description != "" {
		fmt.Fprintf(sh.out, "%s\n", o.Description)
	}
	for _, line := range [][2]string{
		{"type", o.Type}, {"region", l.Payload.Properties.Region}, {"sold only if",
			o.Accept}, {"on sale until", explain.Time(o.ValidUntil)},
		{"the seller approves each sale within", approvalText(o.ApproveWithin)},
	} {
		if line[1] != "" {
			fmt.Fprintf(sh.out, "%s: %s\n", line[0], line[1])
		}
	}
	switch {
	case l.Payload.AsOf != nil:
		fmt.Fprintf(sh.out, "a copy, %s old: neither a broker nor the seller answers now\n",
			strings.TrimSuffix(ago(l.Payload.AsOf.Time), " ago"))
	case l.Payload.SilentSince != nil:
		fmt.Fprintf(sh.out, "the seller has been silent since about %s: you cannot buy from it\n",
			explain.Time(l.Payload.SilentSince))
	case !l.Payload.Fresh:
		fmt.Fprintf(sh.out, "the seller is silent now: you cannot buy from it\n")
	}
	rows := [][]string{{"PLAN", "A UNIT", "PRICE", "LEFT", "UNITS", "LASTS", "POOL"}}
	for _, p := range o.Plans {
		units := "1"
		if p.Units != nil {
			units = fmt.Sprintf("%d to %d", p.Units.Min, p.Units.Max)
			if p.Units.Step > 1 {
				units += fmt.Sprintf(" by %d", p.Units.Step)
			}
		}
		pool := cmp.Or(p.Pool, api.GeneralPool)
		if p.Dedicated {
			pool += " (dedicated)"
		}
		length := lasts(p)
		if p.Notice != nil {
			length += " (the seller may take it back with " + approvalText(p.Notice) + " notice)"
		}
		rows = append(rows, []string{p.Name, explain.Sizes(p.Resources), explain.Price(p.Price),
			leftText(l.Payload.Plans[p.Name].Remaining), units, length, pool})
	}
	return sh.table(rows)
}

func lasts(p api.Plan) string {
	switch least, most := p.MinDuration, p.MaxDuration; {
	case least != nil && most != nil:
		return explain.Duration(least.Duration) + " to " + explain.Duration(most.Duration)
	case least != nil:
		return explain.Duration(least.Duration) + " or more"
	case most != nil:
		return "up to " + explain.Duration(most.Duration)
	}
	return ""
}
