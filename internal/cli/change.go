package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) resizeCommand() *cobra.Command {
	w, units := &wish{}, int64(0)
	cmd := &cobra.Command{
		Use: "resize RESERVATION", GroupID: "use", Short: "Make a reservation larger or smaller, if its provider agrees",
		Long: "Resize edits the ResourceRequest behind a reservation and waits for the provider's answer. It changes\n" +
			"the amounts that you name and keeps the others; 0 removes one. For a purchase, give the number of units\n" +
			"instead.\n" + explain.Shrinks,
		Example: "  bourse resize r-4f2a --cpu 8 --memory 16Gi\n  bourse resize r-7c1d --units 3",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := api.ReservationChange{Resources: w.Request.Resources, Units: units}
			if cmd.Flags().Changed("units") && units < 1 {
				return api.Invalid("--units", "%d is not a number of units", units).
					Fix("name 1 or more; to end the contract: bourse release %s", args[0])
			}
			if len(change.Resources) == 0 && units == 0 {
				return api.Invalid("--cpu", "nothing is to change").Fix("name an amount: bourse resize %s --cpu 8", args[0])
			}
			return sh.change(cmd.Context(), args[0], w,
				func(client.RequestStatus, time.Time) (api.ReservationChange, error) { return change, nil })
		},
	}
	w.amountFlags(cmd.Flags())
	cmd.Flags().Int64Var(&units, "units", 0, "for a purchase: the new number of units")
	w.changeFlags(cmd.Flags())
	return cmd
}

func (sh *shell) extendCommand() *cobra.Command {
	w := &wish{}
	var by, last time.Duration
	end, shorten := "", false
	cmd := &cobra.Command{
		Use: "extend RESERVATION", GroupID: "use", Short: "Move the end of a reservation, if its provider agrees",
		Long: "Extend edits the ResourceRequest behind a reservation and waits for the provider's answer. Say how much\n" +
			"longer it lasts (--by), how long it lasts from now (--for), or when it ends (--until). An earlier end\n" +
			"needs --shorten.",
		Example: "  bourse extend web --by 1h\n  bourse extend r-4f2a --for 2d\n" +
			"  bourse extend web --until 2026-12-24T18:00:00Z",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (by != 0) == (last != 0) && end == "" || end != "" && by+last != 0 {
				return api.Invalid("--by", "the new end is missing, or given twice").
					Fix("say how much longer, or how long from now: bourse extend %s --by 1h, or --for 2h, or --until TIME; or end "+
						"it: bourse release %[1]s", args[0])
			}
			return sh.change(cmd.Context(), args[0], w, func(r client.RequestStatus,
				now time.Time) (api.ReservationChange, error) {
				at, until := now.Add(last), r.Payload.Status.Until
				switch {
				case by != 0 && until != nil:
					at = until.Add(by)
				case by != 0: // not bound, or unknown: the agent says which
					at = now.Add(by)
				}
				var err error
				if end != "" {
					if at, err = time.Parse(time.RFC3339, end); err != nil {
						return api.ReservationChange{}, api.Invalid("--until", "%q is not a time", end).
							Fix("write it as %s", now.UTC().Format(time.RFC3339))
					}
				}
				return cluster.MoveEnd(r, at, now, shorten)
			})
		},
	}
	f := cmd.Flags()
	durationVar(f, &by, "by", 0, "how much longer it lasts, such as 1h or 2d")
	durationVar(f, &last, "for", 0, "how long it lasts from now")
	f.StringVar(&end, "until", "", "when it ends, such as 2026-12-24T18:00:00Z")
	f.BoolVar(&shorten, "shorten", false, "agree to an earlier end")
	w.changeFlags(f)
	return cmd
}

// changeFlags adds the flags for how a change is followed.
func (w *wish) changeFlags(f *pflag.FlagSet) {
	w.waitFlags(f)
	f.BoolVar(&w.keepAsking, "keep-asking", false, "if the provider refuses, ask again every minute instead of giving up")
}

// change edits the request behind a reservation and waits for the answer. If the provider refuses,
// it sets the request back.
func (sh *shell) change(ctx context.Context, name string, w *wish,
	make func(r client.RequestStatus, now time.Time) (api.ReservationChange, error)) error {
	sh.lookInto(name)
	c, err := sh.agentClient()
	if err != nil {
		return err
	}
	r, err := findRequest(ctx, c, name)
	if api.CodeOf(err) == api.CodeNotFound && err != nil {
		r.Payload.Status.Reservation, err = name, nil // perhaps a part of a split request: the agent knows
	}
	if err != nil {
		return err
	}
	id := r.Payload.Status.Reservation
	_, _ = c.Status(ctx) // its answer has the agent's time
	change, err := make(r, c.Now())
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
	switch condition := upToDate(now); {
	case now.Payload.Status.State == api.Releasing || now.Payload.Status.State.Over():
		return api.Errorf(api.CodeConflict, "reservation %s is %s", id, now.Payload.Status.State).
			FixBy("see", "bourse", "why", id)
	case condition.Status == metav1.ConditionFalse:
		e := api.Errorf(api.CodeConflict, "reservation %s stays as it was: %s", id, api.WithoutCode(condition.Message))
		if w.keepAsking {
			return e.Fix("%s; withdraw the change with another bourse resize or bourse extend", explain.KeepsAsking)
		}
		if _, err := c.ChangeLocally(ctx, id, api.ReservationChange{Withdraw: true}); err != nil {
			return err
		}
		return e.Fix("the change is withdrawn; to ask again every minute: --keep-asking")
	}
	size := explain.Sizes(now.Payload.Request.Resources)
	if p := now.Payload.Request.Purchase; p != nil {
		size = explain.Count(int(p.Units), "unit")
	}
	fmt.Fprintf(sh.progress, "%s, ends in %s\n", size, explain.Until(*now.Payload.Status.Until, time.Now()))
	return sh.showRequest(now)
}

// upToDate returns the condition UpToDate of a request: what became of its last edit.
func upToDate(r client.RequestStatus) metav1.Condition {
	return conditionOf(r.Payload.Status.Conditions, api.ConditionUpToDate)
}

// answered reports whether an edit was accepted or refused, or the reservation ended.
func answered(generation uint64) func(client.RequestStatus) bool {
	return func(r client.RequestStatus) bool {
		if s := r.Payload.Status.State; s == api.Releasing || s.Over() {
			return true
		}
		condition := upToDate(r)
		return uint64(condition.ObservedGeneration) >= generation && condition.Reason != api.Changing
	}
}
