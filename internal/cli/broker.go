package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/market"
)

func (sh *shell) brokerCommand() *cobra.Command {
	var o broker.Options
	var log logFlags
	var caps api.Caps
	var place storeFlags
	var interfaces prototypes.Flags
	maxBytes := resource.QuantityValue{Quantity: *resource.NewQuantity(broker.DefaultBytes, resource.BinarySI)}
	cmd := &cobra.Command{
		Use: "broker", GroupID: "run", Short: "Run the broker of a federation, or act as its operator", Args: cobra.NoArgs,
		Long: "Without a subcommand, bourse broker runs a broker until it is stopped. Its subcommands are for\n" +
			"operators. They reach the broker through its local socket; with --context in the cluster where it runs;\n" +
			"or with --server https://HOST:PORT and --operator-cert.\n\n" +
			"The broker stores its market in a file in --dir, or with --store in PostgreSQL. Further brokers on the\n" +
			"same database stand by and take over.",
		Example: "  bourse broker --dir /var/lib/bourse --listen 0.0.0.0:7443 --host broker.example.org\n" +
			"  bourse broker --dir /var/lib/bourse --store postgres://bourse@db.example.org/bourse --host broker.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.logger(sh.progress)
			if err != nil {
				return err
			}
			o.Log = logger
			logKubernetes(logger)
			if o.Caps, err = market.CapsOf("--max-", caps); err != nil {
				return err
			}
			if o.Caps.Bytes = maxBytes.Value(); o.Caps.Bytes < 1 {
				return api.Invalid("--max-bytes", "%s is not an amount of memory", maxBytes.String()).
					Fix("give an amount such as 16Mi")
			}
			if o.Prototypes, err = interfaces.Options(); err != nil {
				return err
			}
			place.dir = o.Dir
			if o.Journal, err = place.open(); err != nil {
				return err
			}
			return broker.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "bourse-broker", "folder for the journal, the CA and the operator's certificate")
	place.addStore(f)
	addAddresses(f, &o)
	f.StringVar(&o.TLSCertDir, "tls-cert-dir", "",
		"folder with tls.crt, tls.key and ca.crt to use instead of the built-in CA")
	f.StringVar(&o.Socket, "socket", brokerSocket(), "socket for operators")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", "",
		"address for /metrics, /livez and /readyz, such as 127.0.0.1:8080 (default: off)")
	durationVar(f, &o.AuditEvery, "audit-every", broker.DefaultAuditEvery,
		"how often to recompute the market's sums and compare them (bourse_market_imbalance)")
	f.Float64Var(&o.Rate, "rate-limit", 500, "how many calls a second one member may make")
	capFlags(f, &caps, broker.DefaultReservations, broker.DefaultPending, "one member", "no bound")
	f.Var(&maxBytes, "max-bytes",
		"about how much of the broker's memory the pending, held and reserved requests of one member may use")
	interfaces.Add(f)
	log.add(f)
	cmd.PersistentFlags().StringVar(&sh.operatorCert, "operator-cert", "",
		"for the subcommands: folder with an operator's tls.crt, tls.key and ca.crt, such as the folder operator "+
			"in the broker's --dir")
	for _, ask := range sh.operatorCommands() {
		sh.addBrokerAccess(ask.PersistentFlags())
		cmd.AddCommand(ask)
	}
	cmd.AddCommand(sh.brokerInitCommand(), sh.kubeconfigCommand(), sh.journalCommand(), sh.restoreCommand(), sh.verifyCommand(),
		sh.stdioCommand())
	return cmd
}

// operatorCommands are those that ask a broker.
func (sh *shell) operatorCommands() []*cobra.Command {
	all := []*cobra.Command{sh.brokerStatusCommand(), sh.tokenCommand(), sh.membersCommand(), sh.capCommand(),
		sh.operatorCommand(), sh.signCSRCommand(), sh.backupCommand()}
	for _, step := range []struct{ name, short, question string }{
		{"approve", "Admit a cluster that asked to join; compare its fingerprint first", ""},
		{"suspend", "Suspend a member: other members do not see it, and it makes no new reservations", ""},
		{"resume", "End a member's suspension", ""},
		{"revoke", "Revoke a member for good: the broker refuses its certificate",
			"Revoke %s for good? It can join again only after you remove it."},
		{"remove", "Remove a member that will never come back, and end its reservations",
			"Remove %s for good? Its reservations end, on both sides."},
		{"end-certificates", "End a member's certificates after a theft; its agent gets a new one with its cluster key", ""},
	} {
		all = append(all, sh.stepCommand(step.name, step.short, step.question))
	}
	return all
}

// addAddresses adds the flags for the addresses by which members reach the broker.
func addAddresses(f *pflag.FlagSet, o *broker.Options) {
	f.StringVar(&o.Listen, "listen", "127.0.0.1:7443", "address for members")
	f.StringSliceVar(&o.Hosts, "host", nil,
		"names and addresses of this broker for its members; its certificate has all of them (default: the host of --listen)")
	f.StringVar(&o.URL, "url", "",
		"URL of this broker for its members, https://HOST:PORT, which goes into tokens; its port may differ from that of "+
			"--listen, as behind a Service (default: the first --host and the port of --listen)")
}

// stepCommand changes the state of a member. It asks the question first, if there is one.
func (sh *shell) stepCommand(step, short, question string) *cobra.Command {
	cmd := &cobra.Command{
		Use: step + " CLUSTER", Short: short, Args: cobra.ExactArgs(1),
		ValidArgsFunction: complete(sh.operator, memberNames),
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if question != "" {
				if err := sh.ask(ctx, fmt.Sprintf(question, args[0])); err != nil {
					return err
				}
			}
			m, err := c.SetMember(ctx, args[0], step)
			if err != nil {
				return err
			}
			return sh.showMembers([]api.Envelope[api.Member]{m})
		}),
	}
	if question != "" {
		sh.asksFirst(cmd)
	}
	return cmd
}

var memberNames = idsOf((*client.Client).Members)

func (sh *shell) membersCommand() *cobra.Command {
	return sh.watchable(&cobra.Command{
		Use: "members", Short: "List the clusters that joined or wait for approval", Args: cobra.NoArgs,
		RunE: sh.asOperator(listed((*client.Client).Members, sh.showMembers)),
	})
}

func (sh *shell) showMembers(items []api.Envelope[api.Member]) error {
	type M = api.Envelope[api.Member]
	const none = "No cluster has joined. Create a token for one: bourse broker token create"
	return show(sh, items, none, []column[api.Member]{
		{"CLUSTER", false, func(m M) string { return m.ID }},
		{"STATE", false, func(m M) string { return string(m.Payload.State) }},
		{"FRESH", false, func(m M) string { return fmt.Sprint(m.Payload.Fresh) }},
		{"FINGERPRINT", false, func(m M) string {
			if m.Payload.Legacy {
				return "none (legacy)"
			}
			return m.Payload.Fingerprint
		}},
		{"SOFTWARE", true, func(m M) string { return m.Payload.Software }},
		{"FROM", true, func(m M) string { return m.Payload.Source }},
		{"CAP", true, func(m M) string { return explain.Caps(m.Payload.Caps) }},
		{"JOINED", true, func(m M) string { return m.Payload.Joined.Format(time.RFC3339) }},
	})
}

var tokenNames = idsOf((*client.Client).Tokens)

func (sh *shell) brokerStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the broker: its journal, members and reservations", Args: cobra.NoArgs,
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.BrokerStatus(ctx)
			if err != nil {
				return err
			}
			if sh.encodes() {
				return sh.encode(s)
			}
			return sh.table([][]string{
				{"url", s.URL}, {"serves since", s.Since.UTC().Format(time.RFC3339)}, {"lineage",
					s.Lineage}, {"revision", strconv.FormatUint(s.Revision, 10)},
				{"members", countsText(s.Members)}, {"reservations", countsText(s.Reservations)}, {"join tokens",
					strconv.Itoa(s.Tokens)},
			})
		}),
	}
}

// countsText is "2 Active, 1 Pending".
func countsText[S ~string](counts map[S]int) string {
	var all []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[state], state))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

func (sh *shell) tokenCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List the join tokens, without their secrets", Args: cobra.NoArgs,
		RunE: sh.asOperator(listed((*client.Client).Tokens, sh.showTokens)),
	}
	drop := &cobra.Command{
		Use: "delete TOKEN...", Short: "Make join tokens void that no cluster has used",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: complete(sh.operator, tokenNames),
		Long: "Delete takes the ID of a token, which bourse broker token list shows, or the token itself.",
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			for _, id := range args {
				if parsed, err := join.ParseToken(id); err == nil {
					id = parsed.ID
				}
				if err := c.DeleteToken(ctx, id); err != nil {
					return err
				}
				fmt.Fprintln(sh.progress, "token", id, "is void")
			}
			return nil
		}),
	}
	cmd := &cobra.Command{Use: "token", Short: "Create, list and delete join tokens"}
	cmd.AddCommand(sh.createTokenCommand(), list, drop)
	return cmd
}

func (sh *shell) showTokens(items []api.Envelope[api.Token]) error {
	type T = api.Envelope[api.Token]
	return show(sh, items, "No join token. Create one: bourse broker token create", []column[api.Token]{
		{"TOKEN", false, func(t T) string { return t.ID }},
		{"FOR", false, func(t T) string { return t.Payload.Cluster }},
		{"ENDS IN", false, func(t T) string { return explain.Until(t.Payload.Expires, time.Now()) }},
		{"USED BY", false, func(t T) string { return t.Payload.UsedBy }},
	})
}
