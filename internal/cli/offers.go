package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/payload"
)

type ownOffer = api.Envelope[api.OwnOffer]

func (sh *shell) offerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "offer", GroupID: "use", Short: "Manage the offers of your cluster",
		Long: "An offer is an object (kind Offer) in the agent's namespace. These commands write it; kubectl and GitOps\n" +
			"can write it too. The agent signs it with the cluster's key and publishes it. Existing contracts stay\n" +
			"when their offer changes or ends.",
	}
	cmd.AddCommand(sh.offerListCommand(), sh.offerCreateCommand(),
		sh.offerEditCommand(), sh.offerDraftCommand("publish", "Put an offer on sale", false),
		sh.offerDraftCommand("unpublish", "Take an offer off sale and keep it as a draft; existing contracts stay",
			true), sh.offerDeleteCommand())
	return cmd
}

func (sh *shell) offerListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the offers of your cluster", Args: cobra.NoArgs,
		RunE: sh.asUser(listed((*cluster.Client).Offers, sh.showOwnOffers)),
	}
}

func (sh *shell) showOwnOffers(items []ownOffer) error {
	return show(sh, items, "Your cluster sells nothing. Create an offer: "+
		"bourse offer create NAME --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour", []column[api.OwnOffer]{
		{"OFFER", false, func(o ownOffer) string { return o.ID }},
		{"ON SALE", false, func(o ownOffer) string { return explain.OnSale(o.Payload) }},
		{"TYPE", false, func(o ownOffer) string { return o.Payload.Spec.Type }},
		{"PLANS", false, func(o ownOffer) string {
			var plans []string
			for _, p := range o.Payload.Spec.Plans {
				plans = append(plans, p.Name)
			}
			return strings.Join(plans, " ")
		}},
		{"SOLD", false, func(o ownOffer) string {
			var sold []string
			for _, p := range o.Payload.Spec.Plans {
				if n := o.Payload.Status.Sold[p.Name]; n > 0 {
					sold = append(sold, fmt.Sprintf("%s %d", p.Name, n))
				}
			}
			return strings.Join(sold, ", ")
		}},
		{"MESSAGE", true, func(o ownOffer) string {
			return conditionOf(o.Payload.Status.Conditions, api.ConditionReady).Message
		}},
	})
}

func (sh *shell) offerCreateCommand() *cobra.Command {
	file, plans := "", []string(nil)
	spec := api.OfferSpec{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an offer, from flags or from a file",
		Long: "Write a plan as NAME:KEY=VALUE,... with the resources of one unit: cpu=2, memory=4Gi, nvidia.com/gpu=1.\n" +
			"Optional keys are price=0.35EUR/hour, quantity=5, units=1-8, min=1h, max=720h, pool=general, notice=10m,\n" +
			"dedicated=true. A plan without a price is free.",
		Example: "  bourse offer create web --type compute --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5\n" +
			"  bourse offer create web -f offer.yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.agentClient()
			if err != nil {
				return err
			}
			if _, err := ownOfferOf(cmd.Context(), c, args[0]); err == nil {
				return api.Errorf(api.CodeConflict, "offer %s exists", args[0]).FixBy("change it", "bourse", "offer", "edit", args[0])
			}
			for _, text := range plans {
				plan, err := parsePlan(text)
				if err != nil {
					return err
				}
				spec.Plans = append(spec.Plans, plan)
			}
			switch {
			case file != "" && len(plans) > 0:
				return api.Invalid("--file", "cannot be combined with --plan").Fix("write the plans into the file")
			case file != "":
				for _, flag := range []string{"type", "description", "label", "accept", "to", "draft"} {
					if cmd.Flags().Changed(flag) {
						return api.Invalid("--"+flag, "cannot be combined with --file").Fix("write it into the file")
					}
				}
				if spec, err = readOffer(file); err != nil {
					return err
				}
			case len(plans) == 0:
				return api.Invalid("--plan", "an offer needs a plan").
					Fix("give for example --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour, or a file: -f")
			}
			if err := match.New().CheckAccept(spec.Accept); err != nil {
				return err
			}
			made, err := c.PutOffer(cmd.Context(), args[0], spec)
			if err != nil {
				return err
			}
			return sh.awaitOffer(cmd.Context(), c, made)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "file with an Offer or its spec, as YAML; - is standard input")
	f.StringVar(&spec.Type, "type", "", "type that buyers can search for, such as compute, gpu or storage")
	f.StringVar(&spec.Description, "description", "", "description for buyers")
	f.StringToStringVar(&spec.Labels, "label", nil, "label that buyers can search for: NAME=VALUE, may be repeated")
	f.StringVar(&spec.Accept, "accept", "", "CEL expression over consumer and request that must be true for a sale")
	optionalDurationVar(f, &spec.ApproveWithin, "approve-within",
		"require your approval of each sale (bourse approve), within this time, such as 8h")
	f.StringSliceVar(&spec.VisibleTo.Clusters, "to", nil,
		"the only clusters that may see the offer (default: all that may see this cluster)")
	f.StringArrayVar(&plans, "plan", nil,
		"plan, such as small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5; may be repeated")
	f.BoolVar(&spec.Draft, "draft", false, "do not put the offer on sale yet")
	return cmd
}

// awaitOffer waits for the agent's answer to an offer that is written, with a time limit.
func (sh *shell) awaitOffer(ctx context.Context, c *cluster.Client, made ownOffer) error {
	var condition *metav1.Condition
	now, err := await(ctx, made, c.Offers, func(now ownOffer) bool {
		condition = observed(now.Payload.Status.Conditions, api.ConditionReady, made.Revision)
		return condition != nil && condition.Reason != api.ReasonOffSaleAtBroker // which this call ends
	})
	if err != nil {
		return err
	}
	if condition == nil {
		fmt.Fprintf(sh.progress, "offer %s is written; the agent has not published it yet\n", made.ID)
	} else {
		fmt.Fprintf(sh.progress, "offer %s: %s\n", made.ID, condition.Message)
	}
	return sh.showOwnOffers([]ownOffer{now})
}

func ownOfferOf(ctx context.Context, c *cluster.Client, name string) (ownOffer, error) {
	return find(ctx, c, (*cluster.Client).Offers, name,
		api.Errorf(api.CodeNotFound, "your cluster has no offer %q", name).FixBy("see", "bourse", "offer", "list"))
}

var ownOfferNames = idsOf((*cluster.Client).Offers)

func (sh *shell) offerDraftCommand(use, short string, draft bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
		ValidArgsFunction: complete(sh.agentClient, ownOfferNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.changeOffer(cmd.Context(), args[0], func(spec *api.OfferSpec) error {
				spec.Draft = draft
				return nil
			})
		},
	}
}

func (sh *shell) offerDeleteCommand() *cobra.Command {
	return sh.asksFirst(&cobra.Command{
		Use: "delete NAME...", Short: "Delete offers; existing contracts stay",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.agentClient, ownOfferNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			err := sh.ask(ctx, "Delete "+strings.Join(args, ", ")+
				"? To take an offer off sale and keep it: bourse offer unpublish.")
			if err != nil {
				return err
			}
			for _, name := range args {
				if _, err := ownOfferOf(ctx, c, name); err != nil {
					return err
				}
				if err := c.DeleteOffer(ctx, name); err != nil {
					return err
				}
				fmt.Fprintln(sh.progress, "offer", name, "is deleted")
			}
			return nil
		}),
	})
}

// readOffer reads an Offer, or its spec alone.
func readOffer(file string) (api.OfferSpec, error) {
	data, err := readLimited(file, maxContract, "an Offer")
	if err != nil {
		return api.OfferSpec{}, err
	}
	var kind metav1.TypeMeta
	if yaml.Unmarshal(data, &kind) == nil && kind.Kind != "" {
		var object api.Offer
		if err := payload.ReadYAML(data, &object); err != nil {
			return api.OfferSpec{}, api.Invalid("FILE", "%s does not contain an Offer: %s", file, err)
		}
		return object.Spec, nil
	}
	var spec api.OfferSpec
	if err := payload.ReadYAML(data, &spec); err != nil {
		return spec, api.Invalid("FILE", "%s does not contain an offer: %s", file, err)
	}
	return spec, nil
}

// readLimited reads a file with some content, or standard input. Errors: Invalid, also for more than most bytes.
func readLimited(file string, most int64, content string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, api.Invalid("FILE", "%s", err).Fix("name a file with %s", content)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", file, most)
	}
	if err != nil {
		return nil, api.Invalid("FILE", "%s", err).Fix("name a file with %s", content)
	}
	return data, nil
}
