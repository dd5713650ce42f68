package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) reservationsCommand() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "reservations [RESERVATION...]", GroupID: "use",
		Short: "List the reservations of your cluster, as consumer and as provider",
		Long: "Reservations lists those that have not ended, or the ones that you name: by ID, or by the name of the\n" +
			"ResourceRequest. STATE Pending means that it waits for capacity, Held that it is not bound yet, Reserved\n" +
			"that both clusters are bound. CLUSTER is the provider, or `to` and the consumer if your cluster lends.\n" +
			"-o wide also shows the names of ResourceRequests.",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
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
			self, err := c.Status(ctx)
			if err != nil {
				return err
			}
			sh.warnOfUnready(ctx, c)
			return sh.showReservations(self.Cluster, items)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also reservations that have ended")
	return sh.watchable(cmd)
}

// warnOfUnready names, above a list, the bound reservations that new pods cannot use.
func (sh *shell) warnOfUnready(ctx context.Context, c *cluster.Client) {
	ctx, cancel := context.WithTimeout(ctx, besideWithin)
	defer cancel()
	items, err := c.Requests(ctx)
	sh.noteUnread("ResourceRequests", err)
	for _, r := range items {
		writeLines(sh.progress, explain.NotReady(r.ID, r.Payload.Status))
	}
}

// noReservations returns the message of an empty list of reservations, with its namespace.
func (sh *shell) noReservations() string {
	const create = "Create one: bourse reserve --cpu 4 --memory 8Gi"
	if sh.allNamespaces || sh.namespace == "" {
		return "No reservation. " + create
	}
	return "No reservation in namespace " + sh.namespace + ". Those of all namespaces, and what is lent: bourse reservations -A. " + create
}

func noReservation(name string) error {
	return api.Errorf(api.CodeNotFound, "your cluster has no reservation %.80q", name).FixBy("see", "bourse", "reservations", "--all")
}

// showReservations lists reservations as the cluster self sees them.
func (sh *shell) showReservations(self string, items []client.Reservation) error {
	type R = client.Reservation
	now := time.Now()
	return show(sh, items, sh.noReservations(), []column[api.Reservation]{
		{"RESERVATION", false, func(r R) string { return r.ID }},
		{"STATE", false, func(r R) string { return string(r.Payload.State) }},
		{"CLUSTER", false, func(r R) string {
			if r.Payload.Provider == self {
				return "to " + r.Payload.Consumer
			}
			return r.Payload.Provider
		}},
		{"RESOURCES", false, func(r R) string { return explain.Sizes(r.Payload.Resources) }},
		{"ENDS IN", false, func(r R) string { return explain.EndsIn(r.Payload, now) }},
		{"CHANGE", true, func(r R) string { return explain.Change(r.Payload.Change) }},
		{"REASON", false, func(r R) string { return explain.ReasonOf(r.Payload, now) }},
		{"REQUEST", true, func(r R) string { return r.Payload.Object }},
		{"CONSUMER", true, func(r R) string { return r.Payload.Consumer }},
		{"PROVIDER", true, func(r R) string { return r.Payload.Provider }},
		{"SLICE", true, func(r R) string { return r.Payload.Slice }},
		{"CREATED", true, func(r R) string { return r.Payload.Created.Format(time.RFC3339) }},
	})
}

func (sh *shell) releaseCommand() *cobra.Command {
	var given []string
	all, without := false, false
	cmd := &cobra.Command{
		Use: "release RESERVATION...", GroupID: "use", Short: "Release reservations, and delete their ResourceRequests",
		Long: "Release ends reservations that your cluster made, named by ID or by the name of the ResourceRequest.\n" +
			"Of one that has ended it says how; the agent keeps the name for an hour after that. --all ends every\n" +
			"one. Volumes whose data is at the provider are deleted with a reservation. Release names them and, at a\n" +
			"terminal, asks. Elsewhere it ends nothing that has volumes, unless --volumes-die has the digest of\n" +
			"their list.\n\n" +
			"After a loss of its own data, your cluster may have signed a reservation that no request made. An admin\n" +
			"ends it at the socket of the agent that leads: bourse release ID --without-request. In a pod the program\n" +
			"is /bourse (docs/lend.md, Talk to an agent in a pod).",
		Example: "  bourse release web\n  bourse release --all",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 0) {
				return api.Errorf(api.CodeInvalid, "give either reservations or --all").Fix("usage: %s", cmd.UseLine())
			}
			sh.lookInto(args...)
			ctx := cmd.Context()
			c, self, err := sh.ownStatus(ctx)
			if err == nil && without {
				return sh.endUnknown(ctx, c, args)
			}
			if err == nil && all {
				if args, err = ownReservations(ctx, c, self.Cluster); err == nil {
					err = sh.ask(ctx, fmt.Sprintf("Release %s: %s?",
						explain.Count(len(args), "reservation"), strings.Join(args, ", ")))
				}
			}
			if err != nil {
				return err
			}
			var failed error // one that has volumes holds up no other
			for _, name := range args {
				if err := sh.releaseNamed(ctx, c, name, given); err != nil {
					failed = errors.Join(failed, err)
				}
			}
			return failed
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "release all reservations of the namespace; with -A, of the cluster")
	cmd.Flags().BoolVar(&without, "without-request", false,
		"at the agent's socket: end reservations, by ID, that your cluster signed and has no request for")
	cmd.Flags().StringSliceVar(&given, "volumes-die", nil,
		"digest of a list of volumes, from the refusal to delete them: deletes these volumes; may be repeated")
	return sh.asksFirst(cmd)
}

// endUnknown ends reservations that the cluster signed and has no request for.
func (sh *shell) endUnknown(ctx context.Context, c *cluster.Client, ids []string) error {
	if way, err := sh.findWay().choose(); err == nil && way.asUser {
		return api.Invalid("--without-request", "is for the socket of the agent that leads").
			FixBy("see", "bourse", "release", "--help")
	}
	failed := sh.ask(ctx, fmt.Sprintf("End %s: %s?", explain.Count(len(ids), "reservation"), strings.Join(ids, ", ")))
	if failed != nil {
		return failed
	}
	for _, id := range ids {
		failed = errors.Join(failed, c.EndUnknown(ctx, id))
	}
	return failed
}

// releaseNamed releases what a user names. It does nothing if that has ended and its ResourceRequest is gone.
func (sh *shell) releaseNamed(ctx context.Context, c *cluster.Client, name string, given []string) error {
	id, err := reservationID(ctx, c, name)
	if err != nil {
		return err
	}
	if _, err := findRequest(ctx, c, id); api.CodeOf(err) == api.CodeNotFound {
		if r, err := c.Reservation(ctx, id); err == nil && r.Payload.State.Over() {
			fmt.Fprintf(sh.progress, "%s has ended: %s%s\n", id, r.Payload.State, explain.Because(r.Payload))
			return nil
		}
	}
	err = sh.release(ctx, c, id, given)
	if api.CodeOf(err) == api.CodeNotFound && id == name {
		return api.Errorf(api.CodeNotFound, "your cluster has no reservation or request %.80q", name).
			Fix("it may have ended, see: bourse reservations --all")
	}
	if err == nil {
		fmt.Fprintln(sh.progress, id, "is being released")
	}
	return err
}

// ownReservations returns the IDs of the reservations that this cluster made and that have not ended.
func ownReservations(ctx context.Context, c *cluster.Client, self string) (own []string, err error) {
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
func (sh *shell) release(ctx context.Context, c *cluster.Client, id string, given []string) error {
	return sh.giveUp(ctx, given, func(word string) error {
		return c.ReleaseLocally(ctx, id, api.Release{VolumesDie: word})
	})
}

// giveUp ends something. If that would delete volumes, it ends it with their digest, if the user gave that or
// agrees.
func (sh *shell) giveUp(ctx context.Context, given []string, end func(word string) error) error {
	err := end("")
	e, _ := errors.AsType[*api.Error](err)
	if e == nil || e.Code != api.CodeVolumesAtStake || e.Volumes == nil {
		return err
	}
	word := e.Volumes.Digest
	if !slices.Contains(given, word) {
		if len(given) > 0 || !terminal(os.Stdin) ||
			!agrees(ctx, bufio.NewReader(os.Stdin), sh.progress, e.Detail+". Delete the data?") {
			return err
		}
	}
	return end(word)
}

func (sh *shell) confirmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "confirm RESERVATION", GroupID: "use", Short: "Confirm a held reservation that was made with --confirm",
		Long: "Confirm takes the ID of the reservation, or the name of its ResourceRequest.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
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
