package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/money"
)

type ownOffer = api.Envelope[api.OwnOffer]

func (sh *shell) offerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "offer", GroupID: "use", Short: "Manage the offers of your cluster",
		Long: "An offer is an object (kind Offer) in the agent's namespace. These commands write it; kubectl and GitOps can write it too.\n" +
			"The agent signs it with the cluster's key and publishes it. Existing contracts stay when their offer changes or ends.",
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
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, _ []string) error {
			items, err := c.Offers(ctx)
			if err != nil {
				return err
			}
			return sh.showOwnOffers(items)
		}),
	}
}

func (sh *shell) showOwnOffers(items []ownOffer) error {
	return show(sh, items,
		"Your cluster sells nothing. Create an offer: bourse offer create NAME --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour",
		column[api.OwnOffer]{"OFFER", false, func(o ownOffer) string { return o.ID }},
		column[api.OwnOffer]{"ON SALE", false, func(o ownOffer) string { return onSale(o.Payload) }},
		column[api.OwnOffer]{"TYPE", false, func(o ownOffer) string { return o.Payload.Spec.Type }},
		column[api.OwnOffer]{"PLANS", false, func(o ownOffer) string {
			var plans []string
			for _, p := range o.Payload.Spec.Plans {
				plans = append(plans, p.Name)
			}
			return strings.Join(plans, " ")
		}},
		column[api.OwnOffer]{"SOLD", false, func(o ownOffer) string {
			var sold []string
			for _, p := range o.Payload.Spec.Plans {
				if n := o.Payload.Status.Sold[p.Name]; n > 0 {
					sold = append(sold, fmt.Sprintf("%s %d", p.Name, n))
				}
			}
			return strings.Join(sold, ", ")
		}},
		column[api.OwnOffer]{"MESSAGE", true, func(o ownOffer) string {
			if c := meta.FindStatusCondition(o.Payload.Status.Conditions, api.ConditionReady); c != nil {
				return c.Message
			}
			return ""
		}},
	)
}

// onSale says in one word whether an offer is on sale.
func onSale(o api.OwnOffer) string {
	switch c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady); {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return "yes"
	default:
		return "no (" + c.Reason + ")"
	}
}

func (sh *shell) offerCreateCommand() *cobra.Command {
	file, plans, within := "", []string(nil), time.Duration(0)
	spec := api.OfferSpec{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create an offer, from flags or from a file",
		Long: "Write a plan as NAME:KEY=VALUE,... with the resources of one unit: cpu=2, memory=4Gi, nvidia.com/gpu=1. Optional keys are\n" +
			"price=0.35EUR/hour, quantity=5, units=1-8, min=1h, max=720h, pool=general, notice=10m, dedicated=true.\n" +
			"A plan without a price is free.",
		Example: "  bourse offer create web --type compute --plan small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5\n  bourse offer create web -f offer.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			if _, err := ownOfferOf(cmd.Context(), c, args[0]); err == nil {
				return api.Errorf(api.CodeConflict, "offer %s exists", args[0]).Fix("change it: bourse offer edit %s", args[0])
			}
			if within != 0 {
				spec.ApproveWithin = &metav1.Duration{Duration: within}
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
			return sh.putOffer(cmd.Context(), c, args[0], spec)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "file with an Offer or its spec, as YAML; - is standard input")
	f.StringVar(&spec.Type, "type", "", "type that buyers can search for, such as compute, gpu or storage")
	f.StringVar(&spec.Description, "description", "", "description for buyers")
	f.StringToStringVar(&spec.Labels, "label", nil, "label that buyers can search for: NAME=VALUE, may be repeated")
	f.StringVar(&spec.Accept, "accept", "", "CEL expression over consumer and request that must be true for a sale")
	durationVar(f, &within, "approve-within", 0,
		"require your approval of each sale (bourse approve), within this time, such as 8h")
	f.StringSliceVar(&spec.VisibleTo.Clusters, "to", nil,
		"the only clusters that may see the offer (default: all that may see this cluster)")
	f.StringArrayVar(&plans, "plan", nil,
		"plan, such as small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5; may be repeated")
	f.BoolVar(&spec.Draft, "draft", false, "do not put the offer on sale yet")
	return cmd
}

// putOffer writes an offer, and waits for the agent's answer, with a time limit.
func (sh *shell) putOffer(ctx context.Context, c *client.Client, name string, spec api.OfferSpec) error {
	made, err := c.PutOffer(ctx, name, spec)
	if err != nil {
		return err
	}
	var said *metav1.Condition
	now, err := await(ctx, made, c.Offers, func(now ownOffer) bool {
		said = observed(now.Payload.Status.Conditions, api.ConditionReady, made.Revision)
		return said != nil && said.Reason != api.ReasonOffSaleAtBroker // which this call ends
	})
	if err != nil {
		return err
	}
	if said == nil {
		fmt.Fprintf(sh.progress, "offer %s is written; the agent has not published it yet\n", name)
	} else {
		fmt.Fprintf(sh.progress, "offer %s: %s\n", name, said.Message)
	}
	return sh.showOwnOffers([]ownOffer{now})
}

func ownOfferOf(ctx context.Context, c *client.Client, name string) (ownOffer, error) {
	items, err := c.Offers(ctx)
	if err != nil {
		return ownOffer{}, err
	}
	if i := slices.IndexFunc(items, func(o ownOffer) bool { return o.ID == name }); i >= 0 {
		return items[i], nil
	}
	return ownOffer{}, api.Errorf(api.CodeNotFound, "your cluster has no offer %q", name).Fix("see: bourse offer list")
}

func ownOfferNames(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := c.Offers(ctx)
	return ids(items), err
}

func (sh *shell) offerEditCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "edit NAME", Short: "Change an offer, in your editor ($EDITOR) or from a file; existing contracts keep their terms",
		Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, ownOfferNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.changeOffer(cmd.Context(), args[0], func(spec *api.OfferSpec) (err error) {
				if file != "" {
					*spec, err = readOffer(file)
					return err
				}
				return editOffer(cmd.Context(), spec)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with an Offer or its spec, as YAML; - is standard input")
	return cmd
}

// editOffer opens an offer in the user's editor. It keeps a file that it cannot read, for another try.
func editOffer(ctx context.Context, spec *api.OfferSpec) error {
	words := strings.Fields(os.Getenv("EDITOR"))
	if len(words) == 0 {
		return api.Invalid("$EDITOR", "is empty").Fix("set it, or give a file: -f")
	}
	data, err := yaml.Marshal(*spec)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "offer-*.yaml")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Close()
	}
	if err == nil {
		run := exec.CommandContext(ctx, words[0], append(words[1:], f.Name())...)
		run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = run.Run()
	}
	if err != nil {
		return err
	}
	if *spec, err = readOffer(f.Name()); err != nil {
		return fmt.Errorf("%w; your text is in %s: correct it, then use -f", err, f.Name())
	}
	return os.Remove(f.Name())
}

// changeOffer applies change to an offer of this cluster, and writes it.
func (sh *shell) changeOffer(ctx context.Context, name string, change func(*api.OfferSpec) error) error {
	c, err := sh.person()
	if err != nil {
		return err
	}
	now, err := ownOfferOf(ctx, c, name)
	if err == nil {
		err = change(&now.Payload.Spec)
	}
	if err != nil {
		return err
	}
	return sh.putOffer(ctx, c, name, now.Payload.Spec)
}

func (sh *shell) offerDraftCommand(use, short string, draft bool) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: sh.complete(sh.person, ownOfferNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.changeOffer(cmd.Context(), args[0], func(spec *api.OfferSpec) error {
				spec.Draft = draft
				return nil
			})
		},
	}
}

func (sh *shell) offerDeleteCommand() *cobra.Command {
	return sh.askFirst(sh.person, func(args []string) string {
		return "Delete " + strings.Join(args, ", ") + "? To take an offer off sale and keep it: bourse offer unpublish."
	}, &cobra.Command{
		Use: "delete NAME...", Short: "Delete offers; existing contracts stay", Args: cobra.MinimumNArgs(1), ValidArgsFunction: sh.complete(sh.person, ownOfferNames),
	}, func(ctx context.Context, c *client.Client, args []string) error {
		for _, name := range args {
			if err := c.DeleteOffer(ctx, name); err != nil {
				return err
			}
			fmt.Fprintln(sh.progress, "offer", name, "is deleted")
		}
		return nil
	})
}

// readOffer reads an Offer, or its spec alone.
func readOffer(file string) (api.OfferSpec, error) {
	data, err := readLimited(file, maxContract)
	if err != nil {
		return api.OfferSpec{}, err
	}
	var kind metav1.TypeMeta
	if yaml.Unmarshal(data, &kind) == nil && kind.Kind != "" {
		var object api.Offer
		if err := yaml.UnmarshalStrict(data, &object); err != nil {
			return api.OfferSpec{}, api.Invalid("FILE", "%s does not contain an Offer: %s", file, err)
		}
		return object.Spec, nil
	}
	var spec api.OfferSpec
	if err := yaml.UnmarshalStrict(data, &spec); err != nil {
		return spec, api.Invalid("FILE", "%s does not contain an offer: %s", file, err)
	}
	return spec, nil
}

// readLimited reads a file, or standard input.
func readLimited(file string, most int64) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, api.Invalid("FILE", "%s", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = api.Invalid("FILE", "%s has more than %d bytes", file, most)
	}
	return data, err
}

// planKeys are the keys of a plan that are no resources.
var planKeys = []string{"price", "quantity", "units", "min", "max", "notice", "dedicated", "pool"}

// resourceKeys are the resources of Kubernetes whose names have no domain.
var resourceKeys = []string{"cpu", "memory", "pods", "storage", "ephemeral-storage"}

// parsePlan reads "small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5". Errors: Invalid at --plan.
func parsePlan(text string) (api.Plan, error) {
	name, rest, ok := strings.Cut(text, ":")
	wrong := func(what string) error {
		return api.Invalid("--plan", "%s: %s", text, what).
			Fix("write small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5,units=1-8,min=1h,max=720h,pool=general")
	}
	if !ok || name == "" {
		return api.Plan{}, wrong("it has no name")
	}
	p := api.Plan{Name: name, Resources: api.Resources{}}
	for _, part := range strings.Split(rest, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return p, wrong(part + " has no value")
		}
		var err error
		switch key {
		case "price":
			p.Price, err = money.Read("price", value)
		case "quantity":
			p.Quantity, err = strconv.ParseInt(value, 10, 64)
		case "units":
			p.Units, err = parseUnits(value)
		case "min":
			p.MinDuration, err = parseDuration(value)
		case "max":
			p.MaxDuration, err = parseDuration(value)
		case "notice":
			p.Notice, err = parseDuration(value)
		case "dedicated":
			p.Dedicated, err = strconv.ParseBool(value)
		case "pool":
			p.Pool = value
		default:
			var q resource.Quantity
			if alike := similar(key, planKeys); len(alike) > 0 && !slices.Contains(resourceKeys, key) &&
				!strings.Contains(key, "/") {
				return p, wrong(key + " is no key; did you mean " + strings.Join(alike, " or ") + "?")
			}
			q, err = readAmount("--plan", key, key+"=", value)
			p.Resources[resourceName(key)] = q
		}
		if err != nil {
			return p, wrong(part + ": " + api.WithoutCode(err.Error()))
		}
	}
	return p, nil
}

func parseDuration(text string) (*metav1.Duration, error) {
	d, err := parseTime(text)
	return &metav1.Duration{Duration: d}, err
}

func parseUnits(text string) (*api.Units, error) {
	from, to, ranged := strings.Cut(text, "-")
	low, err := strconv.ParseInt(from, 10, 64)
	if err != nil || !ranged {
		return &api.Units{Min: low, Max: low}, err
	}
	high, err := strconv.ParseInt(to, 10, 64)
	return &api.Units{Min: low, Max: high}, err
}
