package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe RESERVATION", GroupID: "use", Short: "Show one request of your cluster: its state, its steps and what is wrong",
		Long:    "Describe takes the ID of a reservation, or the name of its ResourceRequest. Why it got its provider: bourse why.",
		Example: "  bourse describe web",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := findRequest(ctx, c, args[0])
			if err != nil {
				return err
			}
			namespace, name, _ := strings.Cut(r.ID, "/")
			if r, err = c.Request(ctx, namespace, name); err != nil { // with its steps
				return err
			}
			if sh.output == "json" || sh.output == "yaml" {
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
		{"provider", status.Provider}, {"resources", sizes(request.Resources)},
	}
	if p := request.Purchase; p != nil {
		rows = append(rows, []string{"buys", p.Seller + "/" + p.Offer + "/" + p.Plan})
	}
	if status.Until != nil {
		rows = append(rows, []string{"until", status.Until.UTC().Format(time.RFC3339)})
	}
	if o := r.Payload.Offload; o != nil {
		rows = append(rows, []string{"offloads", strings.Join(o.Namespaces, ", ")})
	}
	of := slices.Clone(status.Conditions)
	for _, c := range r.Payload.Steps {
		if c.Type != api.ConditionReady { // the request has its own
			of = append(of, c)
		}
	}
	for _, c := range of {
		text := string(c.Status)
		if c.Status != metav1.ConditionTrue || c.Message != "" {
			text += ", " + reasonText(c.Reason, c.Message)
		}
		rows = append(rows, []string{c.Type, text})
	}
	return rows
}
