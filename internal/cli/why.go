package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/amounts"
)

func (sh *shell) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why RESERVATION", GroupID: "use", Short: "Explain why a reservation got its provider, or none",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
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
			fmt.Fprintf(sh.out, "%s of %s is %s", r.ID, sizes(p.Resources), p.State)
			if p.Provider != "" {
				fmt.Fprintf(sh.out, " on %s", p.Provider)
			}
			fmt.Fprintln(sh.out, reasonOf(p))
			if err == nil && request.Payload.Status.Message != "" && p.State != api.Rejected { // the decision says why
				fmt.Fprintln(sh.out, strings.TrimSuffix(request.Payload.Status.Message, "; see: bourse why "+r.ID))
			}
			fmt.Fprint(sh.out, waitText(p))
			if len(p.Group) > 0 {
				fmt.Fprintf(sh.out, "it is one of %d parts of a request; releasing one releases all: %s\n",
					len(p.Group), strings.Join(p.Group, ", "))
			}
			if direct {
				fmt.Fprintf(sh.out, "it was bought from %s itself: %s of plan %s\n", p.Provider,
					count(int(p.Sale.Units), "unit"), p.Sale.Plan)
				return nil
			}
			explain(sh.out, *d, partIn(p, *d))
			if p.Provider != "" && p.State.Counts() {
				if cluster, err := c.Cluster(ctx, p.Provider); err == nil {
					noteSilent(sh.out, []clusterItem{cluster})
				}
			}
			if p.Provider == "" {
				if all, err := c.Clusters(ctx); err == nil {
					notePassedOver(sh.out, all)
				}
			}
			for _, t := range p.Tried {
				if t.Reason == api.ReasonNotConfirmed {
					fmt.Fprintf(sh.out, "  held at %s, and not signed in time\n", t.Provider)
					continue
				}
				fmt.Fprintf(sh.out, "  asked %s, which did not accept: %s\n", t.Provider, reasonText(string(t.Reason), t.Message))
			}
			return nil
		}),
	}
}

// waitText says how a request waits or waited for a provider, in a line; empty if it did not.
func waitText(p api.Reservation) string {
	switch w := p.Waiting; {
	case w == nil:
		return ""
	case p.State == api.Pending:
		return fmt.Sprintf("%s, with priority %d, at the latest until %s\n", place(p), w.Priority,
			w.Until.Format(time.RFC3339))
	case w.Since.Before(&p.Created):
		return fmt.Sprintf("it waited for %s\n", p.Created.Sub(w.Since.Time).Round(time.Second))
	}
	return ""
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

// partOf returns the largest of equal parts of an amount; nil if the amount is not valid.
func partOf(whole api.Resources, parts int) api.Resources {
	part, err := amounts.ParseRequest("resources", whole)
	if err != nil {
		return nil
	}
	n := int64(parts)
	for i := range part {
		part[i].Value = (part[i].Value + n - 1) / n
	}
	return part.Resources()
}

// partIn returns the part that a decision about a reservation is about. A rejected one has the whole amount.
func partIn(p api.Reservation, d api.Decision) api.Resources {
	if p.State == api.Rejected && d.Parts > 1 {
		return partOf(p.Resources, d.Parts)
	}
	return p.Resources
}

// noCandidate returns the error for a request that no cluster, or too few, can serve. whole is what it asks for, and
// added ends its sentence.
func noCandidate(d api.Decision, whole api.Resources, added string) *api.Error {
	if d.Parts > 1 {
		return api.Errorf(api.CodeNoCandidate, "too few clusters have room for one of %d equal parts of %s%s", d.Parts,
			sizes(partOf(whole, d.Parts)), added)
	}
	return api.Errorf(api.CodeNoCandidate, "no cluster can serve the request%s", added)
}

// explain writes a decision as text. The numbers add up. part is the size of a part where the decision is about one;
// nil: it is not known.
func explain(out io.Writer, d api.Decision, part api.Resources) {
	qualify := "qualify"
	if d.Parts > 1 {
		of := ""
		if part != nil {
			of = " of " + sizes(part)
		}
		fmt.Fprintf(out, "in %d equal parts%s, each on another cluster\n", d.Parts, of)
		qualify = "with room for a part"
	}
	fmt.Fprintf(out, "%s considered, %d %s\n", count(d.Considered, "cluster"), d.Candidates, qualify)
	if d.Hidden > 0 {
		fmt.Fprintf(out, "  %s not visible to you\n", count(d.Hidden, "cluster"))
	}
	for _, e := range d.Eliminated {
		remedy := ""
		if e.Reason == "Aggregator" {
			remedy = ", unless --aggregated"
		}
		fmt.Fprintf(out, "  %d eliminated by %s (%s)%s\n", e.Count, e.Filter, e.Reason, remedy)
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

func (sh *shell) describeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe RESERVATION", GroupID: "use",
		Short: "Show one request of your cluster: its state, its steps and what is wrong",
		Long: "Describe takes the ID of a reservation, or the name of its ResourceRequest. Why it got its provider:\n" +
			"bourse why.",
		Example: "  bourse describe web",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
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
		rows = append(rows, []string{"asks for", sizes(request.Resources)})
	}
	if len(status.Resources) > 0 {
		rows = append(rows, []string{"in force", sizes(status.Resources)})
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
		if c.Status != metav1.ConditionTrue || c.Message != "" && c.Message != status.Message {
			text += ", " + reasonText(c.Reason, c.Message)
		}
		rows = append(rows, []string{c.Type, text})
	}
	return rows
}
