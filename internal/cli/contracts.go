package cli

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/payload"
)

type deal = api.Envelope[api.Deal]

func (sh *shell) contractsCommand() *cobra.Command {
	bought, sold, all := false, false, false
	cmd := &cobra.Command{
		Use: "contracts", GroupID: "use", Short: "List the contracts of your cluster, bought and sold", Args: cobra.NoArgs,
		Long: "Contracts lists those that have not ended. IN ALL is the cost to the end. -o wide also shows the buyer,\n" +
			"the units, the resources, the price, what is due so far, and the digest that bourse reclaim takes.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, items, self, err := sh.listContracts(cmd)
			if err != nil {
				return err
			}
			sh.warnOfUnready(cmd.Context(), c)
			items = slices.DeleteFunc(items, func(d deal) bool {
				t := d.Payload.Status.Terms
				return !all && d.Payload.Status.State.Over() || bought && !sold && t.Buyer != self ||
					sold && !bought && t.Seller != self
			})
			return show(sh, items, "No contract. See what is on sale: bourse catalog", []column[api.Deal]{
				{"CONTRACT", false, func(d deal) string { return d.Payload.Spec.Reservation }},
				{"STATE", false, func(d deal) string { return string(d.Payload.Status.State) }},
				{"BUYER", true, func(d deal) string { return d.Payload.Status.Terms.Buyer }},
				{"PLAN", false, func(d deal) string { return explain.Plan(d.Payload.Status.Terms) }},
				{"UNITS", true, func(d deal) string { return strconv.FormatInt(d.Payload.Status.Terms.Units, 10) }},
				{"RESOURCES", true, func(d deal) string { return explain.Sizes(d.Payload.Status.Terms.Resources) }},
				{"PRICE", true, func(d deal) string { return explain.Price(d.Payload.Status.Terms.Price) }},
				{"DUE", true, func(d deal) string { return d.Payload.Due }},
				{"IN ALL", false, func(d deal) string { return d.Payload.Status.Cost }},
				{"ENDS IN", false, func(d deal) string {
					if d.Payload.Status.State.Over() {
						return ""
					}
					return explain.Until(due.End(d.Payload.Status), time.Now())
				}},
				{"DIGEST", true, func(d deal) string { return d.Payload.Status.Digest }},
				{"REASON", false, func(d deal) string { return explain.ContractReason(d.Payload.Status) }},
				{"OBJECT", true, func(d deal) string { return d.ID }},
			})
		},
	}
	cmd.Flags().BoolVar(&bought, "bought", false, "only contracts in which your cluster is the buyer")
	cmd.Flags().BoolVar(&sold, "sold", false, "only contracts in which your cluster is the seller")
	cmd.Flags().BoolVar(&all, "all", false, "also contracts that have ended")
	return sh.watchable(cmd)
}

// listContracts returns the contracts of the agent's cluster, and the cluster's ID.
func (sh *shell) listContracts(cmd *cobra.Command) (c *cluster.Client, items []deal, self string, err error) {
	c, s, err := sh.ownStatus(cmd.Context())
	if err != nil {
		return nil, nil, "", err
	}
	sh.documents = true // a contract consists of them
	items, err = c.Contracts(cmd.Context())
	return c, items, s.Cluster, err
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
		Long: "Verify reads a Contract from a file (kubectl get contract NAME -o yaml; - is standard input), or from\n" +
			"your cluster. There it finds the contract by its ID, or by the name of the ResourceRequest. A file needs\n" +
			"no agent and no broker. Verify checks that the seller signed the offer, that the buyer signed an\n" +
			"assignment that names it, and that the seller signed the acceptance. It prints the fingerprints of the\n" +
			"two keys. Ask the two admins for theirs (bourse status), and give them with --seller and --buyer.",
		Example: "  bourse contract verify contract.yaml --seller SHA256:... --buyer SHA256:...\n" +
			"  bourse contract verify r-4f2a\n  bourse contract verify shop",
		Args: cobra.ExactArgs(1),
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
				if fingerprint := public.Fingerprint().String(); key.demanded != "" && fingerprint != key.demanded {
					return api.Errorf(api.CodeBadSignature, "the %s's key is %s, not %s", key.who, fingerprint, key.demanded).
						Fix("another key signed this contract: do not rely on it")
				}
				fmt.Fprintf(sh.progress, "%s signed by %s\n", key.who, public.Fingerprint())
			}
			if sh.encodes() {
				return sh.encode(terms)
			}
			fmt.Fprintf(sh.out, "valid: %s buys %d of %s (%s) from %s to %s, %s\n",
				terms.Buyer, terms.Units, explain.Plan(terms), explain.Sizes(terms.Resources),
				terms.Begins.UTC().Format(time.RFC3339), terms.Until.UTC().Format(time.RFC3339), explain.Price(terms.Price))
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
		c, items, _, err := sh.listContracts(cmd)
		if err != nil {
			return api.ContractSpec{}, err
		}
		id, err := reservationID(cmd.Context(), c, name)
		if err != nil {
			return api.ContractSpec{}, err
		}
		for _, d := range items {
			if d.Payload.Spec.Reservation == id || d.ID == name {
				return d.Payload.Spec, nil
			}
		}
		return api.ContractSpec{}, api.Errorf(api.CodeNotFound,
			"your cluster has no contract %q, and there is no file of that name", name).FixBy("see", "bourse", "contracts", "--all")
	}
	data, err := readLimited(name, maxContract, "a Contract")
	if err != nil {
		return api.ContractSpec{}, err
	}
	var object api.Contract
	if err := payload.ReadYAML(data, &object); err != nil || object.Spec.Assignment == "" {
		if payload.ReadYAML(data, &object.Spec) != nil || object.Spec.Assignment == "" {
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
		Long: "Usage lists every contract of your cluster, also those that have ended. DUE is the cost so far: reserved\n" +
			"x time x the price at the time of the purchase. IN ALL is the cost to the end. USED is what its pods\n" +
			"request, for namespaces that only it uses. The last line sums up what was bought and sold so far, and\n" +
			"the margin, in each currency. -o wide shows all columns of --csv.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asCSV && cmd.Flags().Changed("output") {
				return api.Invalid("--csv", "cannot be combined with --output").Fix("leave --output out")
			}
			_, items, self, err := sh.listContracts(cmd)
			if err != nil {
				return err
			}
			columns := usageColumns(self)
			if asCSV {
				return csv.NewWriter(sh.out).WriteAll(rowsOf(items, columns, true))
			}
			if sh.output == "table" || sh.output == "wide" {
				sh.sumUp(items, self)
			}
			return show(sh, items, "No contract yet. See what is on sale: bourse catalog", columns)
		},
	}
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values, for a spreadsheet")
	return cmd
}

// usageColumns are the columns of bourse usage in the cluster self.
func usageColumns(self string) []column[api.Deal] {
	sold := func(d deal) bool { return d.Payload.Status.Terms.Seller == self }
	return []column[api.Deal]{
		{"CONTRACT", false, func(d deal) string { return d.Payload.Spec.Reservation }},
		{"ROLE", true, func(d deal) string {
			if sold(d) {
				return "seller"
			}
			return "buyer"
		}},
		{"OTHER", true, func(d deal) string {
			if sold(d) {
				return d.Payload.Status.Terms.Buyer
			}
			return d.Payload.Status.Terms.Seller
		}},
		{"PLAN", false, func(d deal) string { return explain.Plan(d.Payload.Status.Terms) }},
		{"UNITS", true, func(d deal) string { return strconv.FormatInt(d.Payload.Status.Terms.Units, 10) }},
		{"RESERVED", true, func(d deal) string { return explain.Sizes(d.Payload.Status.Terms.Resources) }},
		{"USED", false, func(d deal) string { return explain.Sizes(d.Payload.Used) }},
		{"BEGINS", true, func(d deal) string { return explain.Time(&d.Payload.Status.Terms.Begins) }},
		{"UNTIL", true, func(d deal) string {
			end := due.End(d.Payload.Status)
			return explain.Time(&end)
		}},
		{"STATE", true, func(d deal) string { return string(d.Payload.Status.State) }},
		{"DUE", false, func(d deal) string { return d.Payload.Due }},
		{"IN ALL", false, func(d deal) string { return d.Payload.Status.Cost }},
	}
}

// sumUp prints what a cluster bought and sold so far, and the margin, in each currency.
func (sh *shell) sumUp(items []deal, self string) {
	for _, s := range due.SumUp(items, self) {
		fmt.Fprintf(sh.progress, "%s so far: bought %s, sold %s, margin %s\n", s.Currency,
			money.Text(s.Bought, s.Currency), money.Text(s.Sold, s.Currency), money.Text(s.Margin(), s.Currency))
	}
}
