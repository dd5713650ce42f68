package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why RESERVATION", GroupID: "use", Short: "Explain why a reservation got its provider, or none",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
			id, err := reservationID(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := c.Reservation(ctx, id)
			if err != nil {
				return err
			}
			p, d := r.Payload, r.Payload.Decision
			request, err := findRequest(ctx, c, r.ID)
			direct := d == nil && err == nil && p.Sale != nil && !sh.encodes() // the seller's connector explained it then
			if d == nil && !direct {
				return api.Errorf(api.CodeNotFound, "this cluster has no explanation for reservation %s", args[0]).
					Fix("only the consumer can read the explanation")
			}
			if sh.encodes() {
				return sh.encode(d)
			}
			now := time.Now()
			fmt.Fprintln(sh.out, explain.Reservation(r.ID, p))
			if err == nil && request.Payload.Status.Message != "" && p.State != api.Rejected { // the decision says why
				fmt.Fprintln(sh.out, strings.TrimSuffix(request.Payload.Status.Message, "; see: bourse why "+r.ID))
			}
			writeLines(sh.out, explain.Waiting(p, now), explain.Group(p))
			if direct {
				writeLines(sh.out, explain.BoughtDirectly(p))
				return nil
			}
			writeLines(sh.out, explain.Decision(*d, explain.DecidedSize(p, *d)).Lines()...)
			if p.Provider != "" && p.State.Counts() {
				if cluster, err := c.Cluster(ctx, p.Provider); err == nil {
					writeLines(sh.out, explain.Quiet([]clusterItem{cluster})...)
				}
			}
			if p.Provider == "" {
				if all, err := c.Clusters(ctx); err == nil {
					writeLines(sh.out, explain.PassedOver(all)...)
				}
			}
			for _, t := range p.Tried {
				writeLines(sh.out, "  "+explain.Tried(t))
			}
			return nil
		}),
	}
}

func (sh *shell) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe RESERVATION", GroupID: "use",
		Short: "Show one request of your cluster: its state, its steps and what is wrong",
		Long: "Describe takes the ID of a reservation, or the name of its ResourceRequest. Why it got its provider:\n" +
			"bourse why.",
		Example: "  bourse describe web",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
			r, err := findRequest(ctx, c, args[0])
			if err != nil {
				return err
			}
			namespace, name, _ := strings.Cut(r.ID, "/")
			if r, err = c.Request(ctx, namespace, name); err != nil { // with its steps
				return err
			}
			if sh.encodes() {
				return sh.encode(r)
			}
			return sh.table(describeRequest(r))
		}),
	}
	return sh.watchable(cmd)
}

// describeRequest returns the rows that describe a request. Conditions that hold are left out,
// except for steps.
func describeRequest(r client.RequestStatus) [][]string {
	request, status := r.Payload.Request, r.Payload.Status
	rows := [][]string{
		{"request", r.ID}, {"reservation", status.Reservation}, {"state", string(status.State)}, {"message", status.Message},
		{"provider", status.Provider}}
	if p := request.Purchase; p != nil {
		rows = append(rows, []string{"buys", fmt.Sprintf("%d of %s/%s/%s", max(p.Units, 1), p.Seller, p.Offer, p.Plan)})
	} else {
		rows = append(rows, []string{"asks for", explain.Sizes(request.Resources)})
	}
	if len(status.Resources) > 0 {
		rows = append(rows, []string{"in force", explain.Sizes(status.Resources)})
	}
	if status.Until != nil {
		rows = append(rows, []string{"until", status.Until.UTC().Format(time.RFC3339)})
	}
	if o := r.Payload.Offload; o != nil {
		rows = append(rows, []string{"offloads", strings.Join(o.Namespaces, ", ")})
	}
	for _, f := range explain.Facts(r.Payload) {
		rows = append(rows, []string{f.Type, f.Text})
	}
	return rows
}
