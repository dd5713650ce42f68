package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) reservationsCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "reservations [RESERVATION...]", GroupID: "use", Short: "List the reservations of your cluster, as consumer and as provider",
		Long: "Reservations lists those that have not ended, or the ones that you name: by ID, or by the name of the ResourceRequest.\n" +
			"STATE Pending means that it waits for capacity, Held that it is not bound yet, Reserved that both clusters are bound.",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: sh.complete(sh.person, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			items, err := c.Reservations(ctx)
			if err != nil {
				return err
			}
			if len(args) == 0 && !all {
				items = slices.DeleteFunc(items, func(r client.Reservation) bool { return r.Payload.State.Over() })
			}
			var named []client.Reservation
			for _, name := range args {
				id, err := reservationID(ctx, c, name)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(items, func(r client.Reservation) bool { return r.ID == id })
				if i < 0 {
					return noReservation(name)
				}
				named = append(named, items[i])
			}
			if len(args) > 0 {
				items = named
			}
			if err := sh.warnOfNodes(ctx, c); err != nil {
				return err
			}
			return sh.showReservations(items)
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "A", false, "also reservations that have ended")
	return sh.watchable(cmd)
}

// warnOfNodes names, above a list, the Active reservations that run no pod because their virtual
// node is not Ready.
func (sh *shell) warnOfNodes(ctx context.Context, c *client.Client) error {
	items, err := c.Requests(ctx)
	for _, r := range items {
		s := r.Payload.Status
		if ready := meta.FindStatusCondition(s.Conditions, api.ConditionReady); ready != nil &&
			ready.Reason == api.NodeNotReady {
			fmt.Fprintf(sh.progress, "reservation %s (%s) on %s is NOT READY: %s\n", s.Reservation, r.ID, s.Provider, s.Message)
		}
	}
	return err
}

func noReservation(name string) error {
	return api.Errorf(api.CodeNotFound, "no reservation %.80q of yours", name).Fix("see: bourse reservations -A")
}

func (sh *shell) showReservations(items []client.Reservation) error {
	type R = client.Reservation
	return show(sh, items, "No reservation. Create one: bourse reserve --cpu 4 --memory 8Gi",
		column[api.Reservation]{"RESERVATION", false, func(r R) string { return r.ID }},
		column[api.Reservation]{"STATE", false, func(r R) string { return string(r.Payload.State) }},
		column[api.Reservation]{"CONSUMER", false, func(r R) string { return r.Payload.Consumer }},
		column[api.Reservation]{"PROVIDER", false, func(r R) string { return r.Payload.Provider }},
		column[api.Reservation]{"RESOURCES", false, func(r R) string { return sizes(r.Payload.Resources) }},
		column[api.Reservation]{"ENDS IN", false, func(r R) string {
			switch {
			case r.Payload.State == api.Releasing:
				return "ending"
			case !r.Payload.State.Counts():
				return ""
			}
			return until(r.Payload.Until)
		}},
		column[api.Reservation]{"CHANGE", true, func(r R) string { return changeOf(r.Payload.Change) }},
		column[api.Reservation]{"REASON", false, func(r R) string {
			if at := place(r.Payload); at != "" {
				return fmt.Sprintf("%s (%s)", r.Payload.Reason, at)
			}
			return string(r.Payload.Reason)
		}},
		column[api.Reservation]{"SLICE", true, func(r R) string { return r.Payload.Slice }},
		column[api.Reservation]{"CREATED", true, func(r R) string { return r.Payload.Created.Format(time.RFC3339) }},
	)
}

// place returns the place of a reservation in the queue and its waiting time: "number 2, waiting
// for 5m0s". It is empty if the reservation does not wait.
func place(p api.Reservation) string {
	if p.State != api.Pending || p.Waiting == nil {
		return ""
	}
	age := time.Since(p.Waiting.Since.Time).Round(time.Second)
	if p.Waiting.Position == 0 {
		return fmt.Sprintf("waiting for %s", age)
	}
	return fmt.Sprintf("number %d, waiting for %s", p.Waiting.Position, age)
}

// sizes returns amounts as flags take them. CPUs are exact, in cores.
func sizes(r api.Resources) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q := r[name]
		text := human(q, string(name))
		if name == "cpu" {
			text = strconv.FormatFloat(float64(q.MilliValue())/1000, 'f', -1, 64)
		}
		parts = append(parts, string(name)+"="+text)
	}
	return strings.Join(parts, " ")
}

func (sh *shell) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why RESERVATION", GroupID: "use", Short: "Explain why a reservation got its provider, or none",
		Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := reservationID(ctx, c, args[0])
			if err != nil {
				return err
			}
			r, err := c.Reservation(ctx, id)
			if err != nil {
				return err
			}
			d := r.Payload.Decision
			if d == nil {
				return api.Errorf(api.CodeNotFound, "this cluster has no explanation for reservation %s", args[0]).
					Fix("only the consumer can read the explanation")
			}
			if sh.output == "json" || sh.output == "yaml" {
				return sh.encode(d)
			}
			p := r.Payload
			fmt.Fprintf(sh.out, "%s of %s is %s", r.ID, sizes(p.Resources), p.State)
			if p.Provider != "" {
				fmt.Fprintf(sh.out, " on %s", p.Provider)
			}
			fmt.Fprintln(sh.out, reasonOf(p))
			if request, err := findRequest(ctx, c, r.ID); err == nil && request.Payload.Status.Message != "" {
				fmt.Fprintln(sh.out, request.Payload.Status.Message)
			}
			if w := p.Waiting; w != nil && p.State == api.Pending {
				fmt.Fprintf(sh.out, "%s, with priority %d, at the latest until %s\n",
					place(p), w.Priority, w.Until.Format(time.RFC3339))
			} else if w != nil && w.Since.Before(&p.Created) {
				fmt.Fprintf(sh.out, "it waited for %s\n", p.Created.Sub(w.Since.Time).Round(time.Second))
			}
			if len(p.Group) > 0 {
				fmt.Fprintf(sh.out, "it is one of %d parts of a request; releasing one releases all: %s\n",
					len(p.Group), strings.Join(p.Group, ", "))
			}
			explain(sh.out, *d)
			for _, t := range p.Tried {
				fmt.Fprintf(sh.out, "  asked %s, which did not accept: %s\n", t.Provider, reasonText(string(t.Reason), t.Message))
			}
			return nil
		}),
	}
}

func reasonOf(p api.Reservation) string {
	if p.Reason == "" {
		return ""
	}
	return " (" + reasonText(string(p.Reason), p.Message) + ")"
}

// reasonText returns a reason and a message. Messages of errors begin with a code, which is left out.
func reasonText(reason, message string) string {
	message = api.WithoutCode(message)
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// explain writes a decision as text. The numbers add up.
func explain(out io.Writer, d api.Decision) {
	if d.Parts > 1 {
		fmt.Fprintf(out, "in %d equal parts, each on another cluster; for each part:\n", d.Parts)
	}
	fmt.Fprintf(out, "%s considered, %d qualify\n", count(d.Considered, "cluster"), d.Candidates)
	if d.Hidden > 0 {
		fmt.Fprintf(out, "  %s not visible to you\n", count(d.Hidden, "cluster"))
	}
	for _, e := range d.Eliminated {
		fmt.Fprintf(out, "  %d eliminated by %s (%s)\n", e.Count, e.Filter, e.Reason)
	}
	for i, s := range d.Top {
		mark := ""
		if s.Cluster == d.Chosen {
			mark = "  <- chosen"
		}
		var parts []string
		for _, by := range s.Scores {
			parts = append(parts, by.Scorer+" "+points(by.Value))
		}
		if s.Bought != nil {
			parts = append(parts, purchaseText(*s.Bought))
		}
		fmt.Fprintf(out, "  %d. %s  %s  (%s)%s\n", i+1, s.Cluster, points(s.Score), strings.Join(parts, ", "), mark)
	}
	if d.NearestMiss != nil {
		fmt.Fprintf(out, "  nearest miss: %s, by %s: %s\n", d.NearestMiss.Cluster,
			d.NearestMiss.Filter, d.NearestMiss.Message)
	}
}

func (sh *shell) releaseCommand() *cobra.Command {
	var sure consent
	var given []string
	all := false
	cmd := &cobra.Command{
		Use: "release RESERVATION...", GroupID: "use", Short: "Release reservations, and delete their ResourceRequests",
		Long: "Release ends reservations that your cluster made, named by ID or by the name of the ResourceRequest. --all ends every one.\n" +
			"Volumes whose data is at the provider are deleted with a reservation. Release names them and, at a terminal, asks.\n" +
			"Elsewhere it ends nothing that has volumes, unless --volumes-die has the digest of their list.",
		Example: "  bourse release web\n  bourse release --all",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: sh.complete(sh.person, reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return api.Errorf(api.CodeInvalid, "give either reservations or --all").Fix("usage: %s", cmd.UseLine())
			}
			ctx := cmd.Context()
			c, self, err := sh.ownStatus(ctx)
			if err == nil && all {
				if args, err = ownReservations(ctx, c, self.Cluster); err == nil {
					err = sure.ask(cmd, sh.progress, fmt.Sprintf("Release %s: %s?",
						count(len(args), "reservation"), strings.Join(args, ", ")))
				}
			}
			if err != nil {
				return err
			}
			var failed error // one that has volumes holds up no other
			for _, name := range args {
				id, err := reservationID(ctx, c, name)
				if err == nil {
					err = sh.release(cmd, c, id, given)
				}
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				fmt.Fprintln(sh.progress, id, "is being released")
			}
			return failed
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "release all reservations that your cluster made")
	cmd.Flags().StringSliceVar(&given, "volumes-die", nil,
		"digest of a list of volumes, from the refusal to delete them: deletes these volumes; may be repeated")
	sure.add(cmd)
	return cmd
}

// ownReservations returns the IDs of the reservations that this cluster made and that have not ended.
func ownReservations(ctx context.Context, c *client.Client, self string) (own []string, err error) {
	items, err := c.Reservations(ctx)
	for _, r := range items {
		if r.Payload.Consumer == self && !r.Payload.State.Over() && r.Payload.State != api.Releasing {
			own = append(own, r.ID)
		}
	}
	return own, err
}

// release releases a reservation. It gives up the volumes whose digest the user gave, or those that
// the user agrees to.
func (sh *shell) release(cmd *cobra.Command, c *client.Client, id string, given []string) error {
	ctx, in := cmd.Context(), cmd.InOrStdin()
	err := c.ReleaseLocally(ctx, id, api.Release{})
	e, _ := errors.AsType[*api.Error](err)
	if e == nil || e.Code != api.CodeVolumesAtStake || e.Volumes == nil {
		return err
	}
	word := e.Volumes.Digest
	if !slices.Contains(given, word) {
		if len(given) > 0 || !terminal(in) || !agrees(ctx, bufio.NewReader(in), sh.progress, e.Detail+". Delete the data?") {
			return err
		}
	}
	return c.ReleaseLocally(ctx, id, api.Release{VolumesDie: word})
}

func (sh *shell) confirmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "confirm RESERVATION", GroupID: "use", Short: "Confirm a held reservation that was made with --confirm",
		Long: "Confirm takes the ID of the reservation, or the name of its ResourceRequest.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := findRequest(ctx, c, args[0])
			if err != nil {
				return err
			}
			namespace, name, _ := strings.Cut(r.ID, "/")
			if r, err = c.ConfirmRequest(ctx, namespace, name); err != nil {
				return err
			}
			if r, err = sh.follow(ctx, c, r, (&wish{}).done); err != nil {
				return err
			}
			return sh.showRequest(r)
		}),
	}
}
