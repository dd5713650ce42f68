package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) resizeCommand() *cobra.Command {
	w, units := &wish{}, int64(0)
	cmd := &cobra.Command{
		Use: "resize RESERVATION", GroupID: "use", Short: "Make a reservation larger or smaller, if its provider agrees",
		Long: "Resize edits the ResourceRequest behind a reservation and waits for the provider's answer. It changes the amounts that you\n" +
			"name and keeps the others; 0 removes one. For a purchase, give the number of units instead. Pods that do not fit a smaller\n" +
			"reservation are evicted: those of low priority and the youngest first.",
		Example: "  bourse resize r-4f2a --cpu 8 --memory 16Gi\n  bourse resize r-7c1d --units 3",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := api.ReservationChange{Resources: api.Resources{}, Units: units}
			if err := w.into(change.Resources); err != nil {
				return err
			}
			if len(change.Resources) == 0 && units == 0 {
				return api.Invalid("--cpu", "nothing is to change").Fix("name an amount: bourse resize %s --cpu 8", args[0])
			}
			return sh.change(cmd.Context(), args[0], change, w)
		},
	}
	w.amountFlags(cmd.Flags())
	cmd.Flags().Int64Var(&units, "units", 0, "for a purchase: the new number of units")
	w.waitFlags(cmd.Flags())
	return cmd
}

func (sh *shell) extendCommand() *cobra.Command {
	w := &wish{}
	cmd := &cobra.Command{
		Use: "extend RESERVATION --for DURATION", GroupID: "use", Short: "Move the end of a reservation, if its provider agrees",
		Long: "Extend edits the ResourceRequest behind a reservation and waits for the provider's answer. --for counts from now: with less time\n" +
			"than the reservation has left, it ends earlier.",
		Example: "  bourse extend r-4f2a --for 2h",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: sh.complete(reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.duration <= 0 {
				return api.Invalid("--for", "%s is not in the future", w.duration).Fix("say how long from now: bourse extend %s --for 2h; or end it: bourse release %[1]s", args[0])
			}
			return sh.change(cmd.Context(), args[0], api.ReservationChange{For: &metav1.Duration{Duration: w.duration}}, w)
		},
	}
	cmd.Flags().DurationVar(&w.duration, "for", 0, "new remaining time, counted from now")
	w.waitFlags(cmd.Flags())
	return cmd
}

func (sh *shell) change(ctx context.Context, id string, change api.ReservationChange, w *wish) error {
	c, err := sh.person()
	if err != nil {
		return err
	}
	edited, err := c.ChangeLocally(ctx, id, change)
	if err != nil {
		return err
	}
	if w.noWait {
		return sh.showRequest(edited)
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	now, err := sh.follow(ctx, c, edited, answered(edited.Revision))
	if err != nil {
		return err
	}
	switch said := upToDate(now); {
	case now.Payload.Status.State == api.Releasing || now.Payload.Status.State.Over():
		return api.Errorf(api.CodeConflict, "reservation %s is %s", id, now.Payload.Status.State).Fix("see: bourse why %s", id)
	case said.Status == metav1.ConditionFalse:
		return api.Errorf(api.CodeConflict, "reservation %s stays as it was: %s", id, said.Message).
			Fix("the agent asks again every minute; withdraw the change with another bourse resize or bourse extend")
	}
	fmt.Fprintf(sh.progress, "ends in %s\n", until(*now.Payload.Status.Until))
	return sh.showRequest(now)
}

// upToDate returns the condition UpToDate of a request: what became of its last edit.
func upToDate(r client.RequestStatus) metav1.Condition {
	if c := meta.FindStatusCondition(r.Payload.Status.Conditions, api.ConditionUpToDate); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// answered reports whether an edit was accepted or refused, or the reservation ended.
func answered(generation uint64) func(client.RequestStatus) bool {
	return func(r client.RequestStatus) bool {
		if s := r.Payload.Status.State; s == api.Releasing || s.Over() {
			return true
		}
		said := upToDate(r)
		return uint64(said.ObservedGeneration) >= generation && said.Reason != "Changing"
	}
}

// changeOf describes the requested change of a reservation in a few words.
func changeOf(c *api.Change) string {
	switch {
	case c == nil:
		return ""
	case c.Pending():
		return "to " + sizes(c.Resources) + " until " + c.Until.UTC().Format(time.RFC3339)
	}
	return "not to " + sizes(c.Resources) + ": " + string(c.Reason)
}
