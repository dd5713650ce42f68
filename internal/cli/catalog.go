package cli

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/money"
)

type listing = api.Envelope[api.Listing]

func (sh *shell) catalogCommand() *cobra.Command {
	q, sort, most, uptime := api.CatalogQuery{}, "", "", 0.0
	cmd := &cobra.Command{
		Use: "catalog [WORD | SELLER/OFFER]", GroupID: "use", Short: "Search what other clusters sell",
		Long: "Catalog lists the plans that your cluster may buy: the resources of a unit, its price, and how many units are left.\n" +
			"You cannot buy from a seller that is silent; after a day its offers are hidden. While no broker and no seller answers,\n" +
			"the agent shows its own copy of the catalog, with its age. WORD is searched in sellers, names, types, descriptions\n" +
			"and labels. SELLER/OFFER shows one offer in full.",
		Example: "  bourse catalog\n  bourse catalog --gpu a100 --for 8h --sort price\n  bourse catalog --region eu --uptime 0.999\n  bourse catalog milan/web",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: sh.complete(sh.person, offerNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) (err error) {
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
			if q.MaxPrice, err = readMaxPrice(most); err != nil {
				return err
			}
			if len(args) == 1 {
				if seller, name, one := strings.Cut(args[0], "/"); one {
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
			return sh.showCatalog(found, q.For)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.Seller, "seller", "", "only offers of this cluster")
	f.StringVar(&q.Type, "type", "", "only offers of this type, such as compute, gpu or storage")
	f.StringVar(&q.Region, "region", "", "only offers of sellers in this region")
	f.StringVar(&q.GPU, "gpu", "", "only plans with a GPU, of sellers that have a GPU whose name contains this")
	f.StringVar(&q.Currency, "currency", "", "only plans in this currency, and free plans")
	f.StringVar(&most, "max-price", "",
		"only plans whose smallest purchase costs at most this, such as 3EUR/hour, for the time of --for")
	f.BoolVar(&q.Available, "available", false, "only plans that are not sold out")
	f.BoolVar(&q.Hidden, "hidden", false, "also offers of sellers that have been silent for more than a day")
	durationVar(f, &q.For, "for", 0,
		"only plans that are sold for this long, with the cost for that time (default: the cost of one hour)")
	f.Float64Var(&uptime, "uptime", 0,
		"only offers of sellers with at least this uptime over the last 30 days, such as 0.999")
	f.StringVar(&sort, "sort", "",
		"order: name (default), price (free plans first, then by currency), region, or uptime (highest first)")
	fixed(cmd, "sort", "name", string(api.ByPrice), string(api.ByRegion), string(api.ByUptime))
	_ = cmd.RegisterFlagCompletionFunc("seller", sh.complete(sh.person, clusterNames))
	return sh.watchable(cmd)
}

func offerNames(ctx context.Context, c *client.Client) ([]string, error) {
	found, err := c.Catalog(ctx, api.CatalogQuery{})
	return ids(found), err
}

func planNames(ctx context.Context, c *client.Client) ([]string, error) {
	found, err := c.Catalog(ctx, api.CatalogQuery{Available: true})
	var names []string
	for _, l := range found {
		for _, p := range l.Payload.Offer.Plans {
			names = append(names, l.ID+"/"+p.Name)
		}
	}
	return names, err
}

// showCatalog writes one line for each plan.
func (sh *shell) showCatalog(found []listing, d time.Duration) error {
	if sh.output == "json" || sh.output == "yaml" {
		return sh.encode(found)
	}
	cost := "AN HOUR"
	if d > 0 {
		cost = strings.ToUpper(shortly(d))
	}
	rows := [][]string{{"PLAN", "A UNIT", "PRICE", cost, "LEFT", "REGION", "UPTIME", "TYPE"}}
	for _, l := range found {
		for _, p := range l.Payload.Offer.Plans {
			left, shown := l.Payload.Plans[p.Name]
			if !shown {
				continue
			}
			id := l.ID + "/" + p.Name
			if sh.output == "name" {
				fmt.Fprintln(sh.out, id)
			}
			rows = append(rows, []string{id, sizes(p.Resources), priceText(p.Price), costText(left.Cost, p.Price),
				leftNow(l.Payload, left.Remaining), l.Payload.Properties.Region, percent(l.Payload.Uptime), l.Payload.Offer.Type})
		}
	}
	switch {
	case sh.output == "name":
		return nil
	case len(rows) == 1:
		fmt.Fprintln(sh.progress, "No plan on sale matches. To see all plans: bourse catalog")
		return nil
	}
	err := sh.table(rows)
	sh.remark(found)
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
	return shortly(max(0, time.Since(t)).Round(time.Second)) + " ago"
}

// remark reports how many offers come from the agent's copy, and how old the oldest is.
func (sh *shell) remark(found []listing) {
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
			"%d of %d offers are from this agent's copy of the catalog, up to %s old: neither a broker nor the seller answers now. See: bourse doctor\n",
			old, len(found), strings.TrimSuffix(ago(oldest.Time), " ago"))
	}
}

func shortly(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
}

func priceText(p *api.Price) string {
	price, err := money.Parse("price", p)
	if err != nil {
		return "?"
	}
	return price.Text()
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
	if sh.output == "json" || sh.output == "yaml" {
		return sh.encode(l)
	}
	o := l.Payload.Offer
	fmt.Fprintf(sh.out, "%s  version %d  %s\n", l.ID, l.Payload.Version, l.Payload.Digest)
	if o.Description != "" {
		fmt.Fprintf(sh.out, "%s\n", o.Description)
	}
	for _, line := range [][2]string{
		{"type", o.Type}, {"region", l.Payload.Properties.Region}, {"sold only if",
			o.Accept}, {"on sale until", timeText(o.ValidUntil)},
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
			timeText(l.Payload.SilentSince))
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
		pool := p.Pool
		if pool == "" {
			pool = api.GeneralPool
		}
		if p.Dedicated {
			pool += " (dedicated)"
		}
		length := lasts(p)
		if p.Notice != nil {
			length += " (the seller may take it back with " + approvalText(p.Notice) + " notice)"
		}
		rows = append(rows, []string{p.Name, sizes(p.Resources), priceText(p.Price),
			leftText(l.Payload.Plans[p.Name].Remaining), units, length, pool})
	}
	return sh.table(rows)
}

func timeText(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func lasts(p api.Plan) string {
	switch least, most := p.MinDuration, p.MaxDuration; {
	case least != nil && most != nil:
		return shortly(least.Duration) + " to " + shortly(most.Duration)
	case least != nil:
		return shortly(least.Duration) + " or more"
	case most != nil:
		return "up to " + shortly(most.Duration)
	}
	return ""
}

func (sh *shell) buyCommand() *cobra.Command {
	w, units := &wish{}, int64(0)
	cmd := &cobra.Command{
		Use: "buy SELLER/OFFER/PLAN --for DURATION", GroupID: "use", Short: "Buy units of a plan that another cluster offers",
		Long: "Buy reads the offer, prints the cost, and creates a ResourceRequest for exactly that version of the offer. If the seller\n" +
			"changes the offer before both clusters have signed, you buy nothing. What both signed is a Contract: bourse contracts.",
		Example: "  bourse buy milan/web/small --for 24h\n  bourse buy milan/gpu/a100 --units 2 --for 8h --dry-run",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, planNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("units") && units < 1 {
				return api.Invalid("--units", "%d units are nothing to buy", units).
					Fix("buy 1 or more; without --units you buy as few as the plan sells")
			}
			if vias[w.via] == "" {
				return api.Invalid("--via", "%.40q is no way to buy", w.via).Fix("use auto, direct or broker")
			}
			c, err := sh.person()
			if err != nil {
				return err
			}
			r, err := sh.purchase(cmd.Context(), c, args[0], units, w)
			if err != nil {
				return err
			}
			return sh.place(cmd.Context(), c, w, r)
		},
	}
	f := cmd.Flags()
	durationVar(f, &w.duration, "for", 0, "how long (default "+api.DefaultDuration+")")
	f.Int64Var(&units, "units", 0, "how many units of the plan (default: the smallest number that it sells)")
	f.StringVar(&w.maxPrice, "max-price", "", "maximum price of all units together, such as 3EUR/hour")
	f.StringVar(&w.via, "via", "auto",
		"where to buy: direct (at the seller's connector), broker, or auto (direct if the connector answers)")
	fixed(cmd, "via", "auto", "direct", "broker")
	w.useFlags(cmd)
	return cmd
}

// vias are the values of --via.
var vias = map[string]api.Via{"auto": api.ViaAuto, "direct": api.ViaDirect, "broker": api.ViaBroker}

// purchase makes the request for a plan from the current version of its offer.
func (sh *shell) purchase(ctx context.Context, c *client.Client, id string, units int64, w *wish) (api.Request, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return api.Request{}, api.Invalid("PLAN", "%q does not name a plan", id).
			Fix("write SELLER/OFFER/PLAN, as bourse catalog prints it")
	}
	l, err := c.Offer(ctx, parts[0], parts[1])
	if err != nil {
		return api.Request{}, err
	}
	plan := l.Payload.Offer.Plan(parts[2])
	if plan == nil {
		return api.Request{}, api.Errorf(api.CodeNotFound, "offer %s has no plan %q", l.ID, parts[2]).
			Fix("see: bourse catalog %s", l.ID)
	}
	r := api.Request{
		Purchase: &api.Purchase{Seller: parts[0], Offer: parts[1], Plan: parts[2], Units: units, Digest: l.Payload.Digest},
		Confirm:  w.confirm, Network: api.NetworkMode(w.network),
	}
	w.queue(&r)
	if r.MaxPrice, err = readMaxPrice(w.maxPrice); err != nil {
		return r, err
	}
	duration, _ := time.ParseDuration(api.DefaultDuration)
	if w.duration != 0 {
		duration = w.duration
		r.Duration = &metav1.Duration{Duration: duration}
	}
	if units == 0 {
		if units = 1; plan.Units != nil {
			units = plan.Units.Min
		}
		r.Purchase.Units = units
	}
	price, err := money.Parse("price", plan.Price)
	if err != nil {
		return r, err
	}
	comes := "it is free"
	if !price.Free() {
		var cost *big.Rat = price.Cost(units, time.Now(), duration)
		comes = fmt.Sprintf("at %s, that costs %s %s", price.Text(), money.Text(cost, price.Currency), price.Currency)
	}
	fmt.Fprintf(sh.progress, "%d of %s (%s a unit) for %s: %s\n",
		units, id, sizes(plan.Resources), shortly(duration), comes)
	return r, nil
}
