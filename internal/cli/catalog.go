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
		Long: "Catalog lists the plans that are on sale and shown to your cluster: what a unit of each has, what it costs, and how many units\n" +
			"are left now; of a seller that is silent nothing can be bought, and after a day its offers are hidden. While neither a broker nor a\n" +
			"seller is reached, the agent's own copy says what there was, and when. A word is looked for in sellers, names, types, descriptions and labels; SELLER/OFFER shows one offer whole.",
		Example: "  bourse catalog\n  bourse catalog --gpu a100 --for 8h --sort price\n  bourse catalog --region eu --uptime 0.999\n  bourse catalog milan/web",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: sh.complete(offerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			switch order := api.CatalogOrder(sort); order {
			case "name", api.ByName:
			case api.ByPrice, api.ByRegion, api.ByUptime:
				q.Sort = order
			default:
				return api.Invalid("--sort", "%q is not an order", sort).Fix("use name, price, region or uptime")
			}
			if uptime < 0 || uptime > 1 {
				return api.Invalid("--uptime", "%g is not a share", uptime).Fix("say 0.999 for 99.9 %%")
			}
			q.Uptime = int64(math.Round(uptime * 1e6))
			if q.MaxPrice, err = ceiling(most); err != nil {
				return err
			}
			if len(args) == 1 {
				if seller, name, one := strings.Cut(args[0], "/"); one {
					offer, err := c.Offer(cmd.Context(), seller, name)
					if err != nil {
						return err
					}
					return sh.showOffer(offer)
				}
				q.Text = args[0]
			}
			found, err := c.Catalog(cmd.Context(), q)
			if err != nil {
				return err
			}
			return sh.showCatalog(found, q.For)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Seller, "seller", "", "only of this cluster")
	f.StringVar(&q.Type, "type", "", "only of this type, such as compute, gpu or storage")
	f.StringVar(&q.Region, "region", "", "only of sellers in this region")
	f.StringVar(&q.GPU, "gpu", "", "only of sellers with a GPU that is named like this")
	f.StringVar(&q.Currency, "currency", "", "only in this currency, and what is free")
	f.StringVar(&most, "max-price", "", "only plans whose fewest units cost no more, such as 3EUR/hour, for the time of --for")
	f.BoolVar(&q.Available, "available", false, "only what is not sold out")
	f.BoolVar(&q.Hidden, "hidden", false, "also of sellers that have been silent for more than a day")
	f.DurationVar(&q.For, "for", 0, "only what is sold for so long, with what it costs then (default: what an hour costs)")
	f.Float64Var(&uptime, "uptime", 0, "only of sellers that were there for this share of the last 30 days, such as 0.999")
	f.StringVar(&sort, "sort", "", "name (default), price (free first, then currency by currency), region, or uptime (the largest first)")
	return cmd
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

// showCatalog writes a line for each plan.
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
			rows = append(rows, []string{id, sizes(p.Resources), priceText(p.Price), costText(left.Cost, p.Price), leftNow(l.Payload, left.Remaining), l.Payload.Properties.Region, percent(l.Payload.Uptime), l.Payload.Offer.Type})
		}
	}
	switch {
	case sh.output == "name":
		return nil
	case len(rows) == 1:
		fmt.Fprintln(sh.progress, "Nothing that is on sale answers this. To see everything: bourse catalog")
		return nil
	}
	err := sh.table(rows)
	sh.remark(found)
	return err
}

// leftNow is how many units are left as far as that can be known.
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

// remark says which of the offers are not as they are now.
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
		fmt.Fprintf(sh.progress, "%d of %d offers are from this agent's copy of the catalog, up to %s old: no broker, nor their seller, is reached now that could say more. See: bourse doctor\n",
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

// leftText is how many units are left; where only capacity bounds them, and there is plenty, the number says little.
func leftText(n int64) string {
	if n >= 1000 {
		return "plenty"
	}
	return strconv.FormatInt(n, 10)
}

// showOffer writes an offer whole.
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
		{"type", o.Type}, {"region", l.Payload.Properties.Region}, {"for buyers where", o.Accept}, {"on sale until", timeText(o.ValidUntil)},
		{"a person there approves each sale, within", approvalText(o.ApproveWithin)},
	} {
		if line[1] != "" {
			fmt.Fprintf(sh.out, "%s: %s\n", line[0], line[1])
		}
	}
	switch {
	case l.Payload.AsOf != nil:
		fmt.Fprintf(sh.out, "this is how it was %s: no broker, nor the seller, is reached now\n", ago(l.Payload.AsOf.Time))
	case l.Payload.SilentSince != nil:
		fmt.Fprintf(sh.out, "the seller is silent since about %s: nothing can be bought\n", timeText(l.Payload.SilentSince))
	case !l.Payload.Fresh:
		fmt.Fprintf(sh.out, "the seller is silent now: nothing can be bought\n")
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
			pool += " (yours alone)"
		}
		length := lasts(p)
		if p.Notice != nil {
			length += " (or taken back, " + approvalText(p.Notice) + " before)"
		}
		rows = append(rows, []string{p.Name, sizes(p.Resources), priceText(p.Price), leftText(l.Payload.Plans[p.Name].Remaining), units, length, pool})
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
		Use: "buy SELLER/OFFER/PLAN --for DURATION", GroupID: "use", Short: "Buy from a plan of another cluster's offer",
		Long: "Buy reads the offer, says what it comes to, and makes a ResourceRequest for exactly that version of it: if the seller changes the\n" +
			"offer before both have signed, nothing is bought. What both signed is a Contract: see bourse contracts.",
		Example: "  bourse buy milan/web/small --for 24h --offload demo\n  bourse buy milan/gpu/a100 --units 2 --for 8h --dry-run",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(planNames),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	f.DurationVar(&w.duration, "for", 0, "how long (default "+api.DefaultDuration+")")
	f.Int64Var(&units, "units", 0, "how many units of the plan (default: the fewest that it sells)")
	f.StringVar(&w.maxPrice, "max-price", "", "the most that all of it may cost, such as 3EUR/hour")
	w.useFlags(f)
	return cmd
}

// purchase is the request for a plan, as its offer is now.
func (sh *shell) purchase(ctx context.Context, c *client.Client, id string, units int64, w *wish) (api.Request, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return api.Request{}, api.Invalid("PLAN", "%q does not name a plan", id).Fix("write SELLER/OFFER/PLAN, as bourse catalog does")
	}
	l, err := c.Offer(ctx, parts[0], parts[1])
	if err != nil {
		return api.Request{}, err
	}
	plan := l.Payload.Offer.Plan(parts[2])
	if plan == nil {
		return api.Request{}, api.Errorf(api.CodeNotFound, "offer %s has no plan %q", l.ID, parts[2]).Fix("see: bourse catalog %s", l.ID)
	}
	r := api.Request{
		Purchase: &api.Purchase{Seller: parts[0], Offer: parts[1], Plan: parts[2], Units: units, Digest: l.Payload.Digest},
		Confirm:  w.confirm, Network: api.NetworkMode(w.network),
	}
	w.queue(&r)
	if r.MaxPrice, err = ceiling(w.maxPrice); err != nil {
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
		comes = fmt.Sprintf("at %s that comes to %s %s", price.Text(), money.Text(cost, price.Currency), price.Currency)
	}
	fmt.Fprintf(sh.progress, "%d of %s (%s a unit) for %s: %s\n", units, id, sizes(plan.Resources), shortly(duration), comes)
	return r, nil
}
