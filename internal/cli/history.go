package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

// history is what bourse history prints as JSON and YAML.
type history struct {
	Stages []explain.Stage `json:"stages"`
	Events []explain.Event `json:"events"`
}

func (sh *shell) historyCommand() *cobra.Command {
	return sh.watchable(&cobra.Command{
		Use: "history REQUEST", GroupID: "use",
		Short: "Show what happened to a request, when, and what it waits for now",
		Long: "History takes the name of a ResourceRequest, or the ID of its reservation. It shows the stages on the way\n" +
			"to running pods, and the Events of the request. The API server keeps Events for an hour. Why a request\n" +
			"got its provider: bourse why.",
		Example: "  bourse history web",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
			r, err := findRequest(ctx, c, args[0])
			if err != nil {
				return err
			}
			asked, err := sh.readAsked(ctx, c, r)
			if err != nil {
				return err
			}
			h := history{explain.Stages(asked, c.Now()), asked.Events}
			if sh.encodes() {
				return sh.encode(h)
			}
			rows := [][]string{{"STAGE", "STATE", "TIME", "WHAT"}}
			for _, s := range h.Stages {
				rows = append(rows, []string{s.Name, string(s.Progress), clock(s.At), s.Text})
			}
			if err := sh.table(rows); err != nil || len(h.Events) == 0 {
				return err
			}
			writeLines(sh.out, " ")
			rows = [][]string{{"TIME", "EVENT", "MESSAGE"}}
			for _, e := range h.Events {
				rows = append(rows, []string{clock(e.At), e.Reason, e.Text})
			}
			return sh.table(rows)
		}),
	})
}

// readAsked reads what explains a request. What the user may not read, or the agent does not answer, is left out.
func (sh *shell) readAsked(ctx context.Context, c *cluster.Client, r client.RequestStatus) (explain.Asked, error) {
	namespace, name, _ := strings.Cut(r.ID, "/")
	asked := explain.Asked{Request: r.Payload}
	for _, id := range explain.Reservations(r.Payload.Status) {
		i, err := c.Instruction(ctx, namespace, id)
		if err == nil {
			asked.Instructions = append(asked.Instructions, i)
		} else if api.CodeOf(err) != api.CodeNotFound {
			return asked, err
		}
	}
	if id := r.Payload.Status.Reservation; id != "" {
		reservation, err := c.Reservation(ctx, id)
		if sh.noteUnread("reservation", err); err == nil {
			asked.Reservation = &reservation.Payload
		}
	}
	events, err := c.Events(ctx, "ResourceRequest", namespace, name)
	sh.noteUnread("Events", err)
	asked.Events = explain.Events(events)
	return asked, nil
}

// clock returns a time to the second, empty for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
