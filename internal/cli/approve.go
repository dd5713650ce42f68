package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

type waiting = api.Envelope[api.Approval]

func (sh *shell) approvalsCommand() *cobra.Command {
	return sh.watchable(&cobra.Command{
		Use: "approvals", GroupID: "use",
		Short: "List the requests of other clusters that wait for your approval", Args: cobra.NoArgs,
		Long: "An offer or the SharingPolicy can require approval by an admin (approveWithin). A request for it is held\n" +
			"and waits here.",
		RunE: sh.asUser(listed((*cluster.Client).Approvals, sh.showApprovals)),
	})
}

func (sh *shell) showApprovals(items []waiting) error {
	return show(sh, items, "Nothing waits for your approval.", []column[api.Approval]{
		{"RESERVATION", false, func(w waiting) string { return w.ID }},
		{"CONSUMER", false, func(w waiting) string { return w.Payload.Consumer }},
		{"PLAN", true, func(w waiting) string { return soldAs(w.Payload) }},
		{"UNITS", true, func(w waiting) string { return number(w.Payload.Units) }},
		{"RESOURCES", false, func(w waiting) string { return sizes(w.Payload.Resources) }},
		{"ENDS IN", false, func(w waiting) string { return until(w.Payload.Until) }},
		{"ANSWER IN", false, func(w waiting) string { return until(w.Payload.By) }},
		{"POOL", true, func(w waiting) string { return w.Payload.Pool }},
	})
}

func soldAs(a api.Approval) string {
	if a.Offer == "" {
		return ""
	}
	return a.Offer + "/" + a.Plan
}

// approvalText returns how long an admin may take to approve. It is empty if no approval is needed.
func approvalText(within *metav1.Duration) string {
	if within == nil {
		return ""
	}
	return duration.HumanDuration(within.Duration)
}

var waitingNames = idsOf((*cluster.Client).Approvals)

func (sh *shell) approveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "approve RESERVATION...", GroupID: "use", Short: "Approve waiting requests: your cluster accepts them",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, waitingNames),
		RunE: sh.answer(&api.Answer{Approve: true}, "is approved"),
	}
}

func (sh *shell) refuseCommand() *cobra.Command {
	word := &api.Answer{}
	cmd := &cobra.Command{
		Use: "refuse RESERVATION...", GroupID: "use",
		Short: "Refuse waiting requests: each moves on to another provider, or fails",
		Args:  cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, waitingNames),
		RunE: sh.answer(word, "is refused"),
	}
	cmd.Flags().StringVar(&word.Reason, "reason", "", "reason that the consumer reads")
	return cmd
}

// answer returns what a command runs that sends an admin's answer for each waiting request. Repeating
// an answer is harmless.
func (sh *shell) answer(word *api.Answer, done string) func(*cobra.Command, []string) error {
	return sh.asUser(func(ctx context.Context, c *cluster.Client, reservations []string) error {
		for _, id := range reservations {
			if err := c.Answer(ctx, id, *word); err != nil {
				return err
			}
			fmt.Fprintln(sh.progress, id, done)
		}
		return nil
	})
}
