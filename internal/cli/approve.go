package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

type waiting = api.Envelope[api.Approval]

func (sh *shell) approvalsCommand() *cobra.Command {
	return sh.watchable(&cobra.Command{
		Use: "approvals", GroupID: "use",
		Short: "List the requests of other clusters that wait for your approval", Args: cobra.NoArgs,
		Long: "An offer or the SharingPolicy can require approval by an admin (approveWithin). A request for it is held\n" +
			"and waits here. -o wide also shows the digest that bourse approve and bourse refuse take.",
		RunE: sh.asUser(listed((*cluster.Client).Approvals, sh.showApprovals)),
	})
}

func (sh *shell) showApprovals(items []waiting) error {
	return show(sh, items, "Nothing waits for your approval.", []column[api.Approval]{
		{"RESERVATION", false, func(w waiting) string { return w.ID }},
		{"CONSUMER", false, func(w waiting) string { return w.Payload.Consumer }},
		{"PLAN", true, func(w waiting) string { return soldAs(w.Payload) }},
		{"UNITS", true, func(w waiting) string { return number(w.Payload.Units) }},
		{"RESOURCES", false, func(w waiting) string { return explain.Sizes(w.Payload.Resources) }},
		{"ENDS IN", false, func(w waiting) string { return explain.Until(w.Payload.Until, time.Now()) }},
		{"ANSWER IN", false, func(w waiting) string { return explain.Until(w.Payload.By, time.Now()) }},
		{"POOL", true, func(w waiting) string { return w.Payload.Pool }},
		{"PRICE", true, func(w waiting) string { return w.Payload.Price }},
		{"DIGEST", true, func(w waiting) string { return w.Payload.Digest }},
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
	var given []string
	cmd := &cobra.Command{
		Use: "approve RESERVATION...", GroupID: "use", Short: "Approve waiting requests: your cluster accepts them",
		Long: "Approve shows each request and, at a terminal, asks. Elsewhere it approves those whose digest you give\n" +
			"(bourse approvals -o wide). A request that changed since you saw it has another digest.",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, waitingNames),
		RunE: sh.answer(&api.Answer{Approve: true}, "Approve", "is approved", &given),
	}
	return sh.takesDigest(cmd, &given, "bourse approvals -o wide")
}

func (sh *shell) refuseCommand() *cobra.Command {
	word := &api.Answer{}
	var given []string
	cmd := &cobra.Command{
		Use: "refuse RESERVATION...", GroupID: "use",
		Short: "Refuse waiting requests: each moves on to another provider, or fails",
		Long: "Refuse shows each request and, at a terminal, asks. Elsewhere it refuses those whose digest you give\n" +
			"(bourse approvals -o wide).",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, waitingNames),
		RunE: sh.answer(word, "Refuse", "is refused", &given),
	}
	cmd.Flags().StringVar(&word.Reason, "reason", "", "reason that the consumer reads")
	return sh.takesDigest(cmd, &given, "bourse approvals -o wide")
}

// answer returns what a command runs that sends an admin's answer for each waiting request. verb and done are the words
// before and after it.
func (sh *shell) answer(word *api.Answer, verb, done string, given *[]string) func(*cobra.Command, []string) error {
	return sh.asUser(func(ctx context.Context, c *cluster.Client, reservations []string) error {
		all, err := c.Approvals(ctx)
		if err != nil {
			return err
		}
		for _, id := range reservations {
			i := slices.IndexFunc(all, func(w waiting) bool { return w.ID == id })
			if i < 0 {
				return api.Errorf(api.CodeNotFound, "no reservation %.80q waits for your approval", id).FixBy("see", "bourse", "approvals")
			}
			err := sh.agree(ctx, agreement{given: *given, digest: all[i].Payload.Digest, shown: waitingText(all[i]),
				question: verb + " it?", command: "bourse " + strings.ToLower(verb) + " " + id})
			if err == nil {
				err = c.Answer(ctx, all[i], *word)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(sh.progress, id, done)
		}
		return nil
	})
}

// waitingText returns what an admin decides about: who asks, how much, at which price, until when.
func waitingText(w waiting) string {
	a := w.Payload
	text := fmt.Sprintf("%s: %s asks for %s of pool %s until %s", w.ID, a.Consumer, explain.Sizes(a.Resources), a.Pool, explain.Time(&a.Until))
	if a.Offer != "" {
		text += fmt.Sprintf("; it buys %s of %s", explain.Count(int(a.Units), "unit"), soldAs(a))
	}
	if a.Price != "" {
		text += " at " + a.Price + " each"
	}
	return text
}
