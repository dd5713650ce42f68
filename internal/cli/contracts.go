package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
)

type deal = api.Envelope[api.Deal]

func (sh *shell) contractsCommand() *cobra.Command {
	bought, sold, all := false, false, false
	cmd := &cobra.Command{
		Use: "contracts", GroupID: "use", Short: "List the contracts of your cluster, bought and sold", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, self, err := sh.deals(cmd)
			if err == nil {
				err = sh.asUser(func(ctx context.Context, c *client.Client,
					_ []string) error {
					return sh.warnOfNodes(ctx, c)
				})(cmd, nil)
			}
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(d deal) bool {
				t := d.Payload.Status.Terms
				return !all && d.Payload.Status.State.Over() || bought && !sold && t.Buyer != self ||
					sold && !bought && t.Seller != self
			})
			return show(sh, items, "No contract. See what is on sale: bourse catalog",
				column[api.Deal]{"CONTRACT", false, func(d deal) string { return d.Payload.Spec.Reservation }},
				column[api.Deal]{"STATE", false, func(d deal) string { return string(d.Payload.Status.State) }},
				column[api.Deal]{"BUYER", false, func(d deal) string { return d.Payload.Status.Terms.Buyer }},
				column[api.Deal]{"PLAN", false, func(d deal) string { return planOf(d.Payload.Status.Terms) }},
				column[api.Deal]{"UNITS", false,
					func(d deal) string { return strconv.FormatInt(d.Payload.Status.Terms.Units, 10) }},
				column[api.Deal]{"RESOURCES", false, func(d deal) string { return sizes(d.Payload.Status.Terms.Resources) }},
				column[api.Deal]{"PRICE", false, func(d deal) string { return priceText(d.Payload.Status.Terms.Price) }},
				column[api.Deal]{"DUE", false, func(d deal) string { return d.Payload.Due }},
				column[api.Deal]{"IN ALL", false, func(d deal) string { return d.Payload.Status.Cost }},
				column[api.Deal]{"ENDS IN", false, func(d deal) string {
					if d.Payload.Status.State.Over() {
						return ""
					}
					return until(d.Payload.Status.Terms.Until)
				}},
				column[api.Deal]{"OBJECT", true, func(d deal) string { return d.ID }},
			)
		},
	}
	cmd.Flags().BoolVar(&bought, "bought", false, "only contracts in which your cluster is the buyer")
	cmd.Flags().BoolVar(&sold, "sold", false, "only contracts in which your cluster is the seller")
	cmd.Flags().BoolVarP(&all, "all", "A", false, "also contracts that have ended")
	return sh.watchable(cmd)
}

func planOf(t api.ContractTerms) string { return t.Seller + "/" + t.Offer + "/" + t.Plan }

// deals returns the contracts of the agent's cluster, and the cluster's ID.
func (sh *shell) deals(cmd *cobra.Command) (items []deal, self string, err error) {
	c, s, err := sh.ownStatus(cmd.Context())
	if err != nil {
		return nil, "", err
	}
	items, err = c.Contracts(cmd.Context())
	return items, s.Cluster, err
}

func (sh *shell) contractCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "contract", GroupID: "use", Short: "Verify contracts"}
	cmd.AddCommand(sh.verifyContractCommand())
	return cmd
}

func (sh *shell) verifyContractCommand() *cobra.Command {
	seller, buyer := "", ""
	cmd := &cobra.Command{
		Use: "verify FILE|CONTRACT", Short: "Check the signatures of a contract, and that its documents match",
		Long: "Verify reads a Contract from a file (kubectl get contract NAME -o yaml; - is standard input), or by its name from your cluster.\n" +
			"A file needs no agent and no broker. Verify checks that the seller signed the offer, that the buyer signed an assignment\n" +
			"that names it, and that the seller signed the acceptance. It prints the fingerprints of the two\n" +
			"keys. Ask the two admins for theirs (bourse status), and give them with --seller and --buyer.",
		Example: "  bourse contract verify contract.yaml --seller SHA256:... --buyer SHA256:...\n  bourse contract verify r-4f2a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := sh.readContract(cmd, args[0])
			if err != nil {
				return err
			}
			terms, err := contract.Verify(spec)
			if err != nil {
				return err
			}
			for _, key := range []struct{ who, text, demanded string }{{"seller", spec.SellerKey, seller},
				{"buyer", spec.BuyerKey, buyer}} {
				public, err := clusterkey.ParsePublicKey(key.text)
				if err != nil {
					return err
				}
				if is := public.Fingerprint().String(); key.demanded != "" && is != key.demanded {
					return api.Errorf(api.CodeBadSignature, "the %s's key is %s, not %s", key.who, is, key.demanded).
						Fix("another key signed this contract: do not rely on it")
				}
				fmt.Fprintf(sh.progress, "%s signed by %s\n", key.who, public.Fingerprint())
			}
			if sh.output == "json" || sh.output == "yaml" {
				return sh.encode(terms)
			}
			fmt.Fprintf(sh.out, "valid: %s buys %d of %s (%s) from %s to %s, %s\n",
				terms.Buyer, terms.Units, planOf(terms), sizes(terms.Resources),
				terms.Begins.UTC().Format(time.RFC3339), terms.Until.UTC().Format(time.RFC3339), priceText(terms.Price))
			return nil
		},
	}
	cmd.Flags().StringVar(&seller, "seller", "", "expected fingerprint of the seller's key")
	cmd.Flags().StringVar(&buyer, "buyer", "", "expected fingerprint of the buyer's key")
	return cmd
}

// maxContract is how many bytes of a file are read at most.
const maxContract = 1 << 20

func (sh *shell) readContract(cmd *cobra.Command, name string) (api.ContractSpec, error) {
	if _, err := os.Stat(name); err != nil && name != "-" {
		items, _, err := sh.deals(cmd)
		if err != nil {
			return api.ContractSpec{}, err
		}
		for _, d := range items {
			if d.Payload.Spec.Reservation == name || d.ID == name {
				return d.Payload.Spec, nil
			}
		}
		return api.ContractSpec{}, api.Errorf(api.CodeNotFound,
			"your cluster has no contract %q, and there is no file of that name", name).Fix("see: bourse contracts -A")
	}
	data, err := readLimited(name, maxContract)
	if err != nil {
		return api.ContractSpec{}, err
	}
	var object api.Contract
	if err := yaml.UnmarshalStrict(data, &object); err != nil || object.Spec.Assignment == "" {
		if yaml.UnmarshalStrict(data, &object.Spec) != nil || object.Spec.Assignment == "" {
			return api.ContractSpec{}, api.Invalid("FILE", "%s does not contain a Contract", name).
				Fix("write it with: kubectl get contract NAME -o yaml")
		}
	}
	return object.Spec, nil
}

func (sh *shell) usageCommand() *cobra.Command {
	asCSV := false
	cmd := &cobra.Command{
		Use: "usage", GroupID: "use", Short: "Show the cost of each contract so far, and its use", Args: cobra.NoArgs,
		Long: "Usage lists every contract of your cluster, also those that have ended. DUE is the cost so far: reserved x time x the price at\n" +
			"the time of the purchase. IN ALL is the cost to the end. USED is what its pods request, for namespaces that only it uses.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asCSV && cmd.Flags().Changed("output") {
				return api.Invalid("--csv", "cannot be combined with --output").Fix("leave --output out")
			}
			items, self, err := sh.deals(cmd)
			if err != nil {
				return err
			}
			if !asCSV && sh.output != "table" && sh.output != "wide" {
				return show(sh, items, "")
			}
			rows := [][]string{{"CONTRACT", "ROLE", "OTHER", "PLAN", "UNITS",
				"RESERVED", "USED", "BEGINS", "UNTIL", "STATE", "DUE", "IN ALL"}}
			for _, d := range items {
				t, role, other := d.Payload.Status.Terms, "buyer", d.Payload.Status.Terms.Seller
				if t.Seller == self {
					role, other = "seller", t.Buyer
				}
				end := t.Until
				if d.Payload.Status.Ended != nil && d.Payload.Status.Ended.Before(&end) {
					end = *d.Payload.Status.Ended
				}
				rows = append(rows, []string{d.Payload.Spec.Reservation,
					role, other, planOf(t), strconv.FormatInt(t.Units, 10), sizes(t.Resources), sizes(d.Payload.Used),
					t.Begins.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), string(d.Payload.Status.State), d.Payload.Due, d.Payload.Status.Cost})
			}
			if asCSV {
				w := csv.NewWriter(sh.out)
				return w.WriteAll(rows)
			}
			if len(rows) == 1 {
				fmt.Fprintln(sh.progress, "No contract yet. See what is on sale: bourse catalog")
				return nil
			}
			return sh.table(rows)
		},
	}
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values, for a spreadsheet")
	return cmd
}
