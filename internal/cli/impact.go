package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) impactCommand() *cobra.Command {
	return &cobra.Command{
		Use: "impact REQUEST|PROVIDER", GroupID: "use",
		Short: "Show what would end if you released a request, or if a provider left",
		Long: "Impact takes the name of a ResourceRequest, the ID of its reservation, or a provider. It shows the pods\n" +
			"on its virtual nodes, what they use, and the volumes that would be deleted. It names the first 20 of the\n" +
			"pods and volumes that you may see, and counts all. Of a provider it shows your requests there. It changes\n" +
			"nothing.",
		Example: "  bourse impact web\n  bourse impact milan",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, reservationNames),
		RunE: sh.ofReservations(func(ctx context.Context, c *cluster.Client, args []string) error {
			all, err := sh.findImpacts(ctx, c, args[0])
			if err != nil {
				return err
			}
			if sh.encodes() {
				return sh.encode(all)
			}
			for _, i := range all {
				writeLines(sh.out, explain.Impact(i.ID, i.Payload, i.instructions)...)
			}
			return nil
		}),
	}
}

// impactOf is what would end with one request.
type impactOf struct {
	api.Envelope[api.Impact]
	instructions []api.ReservationInstruction
}

// findImpacts returns what would end with the requests that a user means: one, or those at a provider. Errors: NotFound.
func (sh *shell) findImpacts(ctx context.Context, c *cluster.Client, name string) (out []impactOf, err error) {
	requests, err := c.Requests(ctx)
	if err != nil {
		return nil, err
	}
	found, missing := findRequest(ctx, c, name)
	for _, r := range requests {
		s := r.Payload.Status
		at := s.State.Counts() && s.Provider == name
		for _, part := range s.Parts {
			at = at || part.State.Counts() && part.Provider == name
		}
		if missing == nil && r.ID != found.ID || missing != nil && !at {
			continue
		}
		namespace, short, _ := strings.Cut(r.ID, "/")
		impact, err := c.Impact(ctx, namespace, short)
		if err != nil {
			return nil, err
		}
		asked, err := sh.readAsked(ctx, c, r)
		if err != nil {
			return nil, err
		}
		out = append(out, impactOf{api.Envelope[api.Impact]{ID: r.ID, Revision: r.Revision, Payload: impact}, asked.Instructions})
	}
	if len(out) > 0 {
		return out, nil
	}
	if api.CodeOf(missing) != api.CodeNotFound {
		return nil, missing
	}
	if err := sh.checkClusters(ctx, c, "", "see: bourse reservations", name); err != nil {
		return nil, err
	}
	return nil, api.Errorf(api.CodeNotFound, "no request that you may see has the name %.80[1]q, or anything at a cluster %[1]q",
		name).FixBy("see", "bourse", "reservations")
}
