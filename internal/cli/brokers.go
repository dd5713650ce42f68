package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

type knownBroker = api.Envelope[api.KnownBroker]

func (sh *shell) brokersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "brokers", GroupID: "use",
		Short: "List, add, disable and remove the brokers of this cluster", Args: cobra.NoArgs,
		Long: "Your cluster has one broker, main, which its agent was started with. It may join others. It then lends\n" +
			"and sells through each, and bourse catalog shows the offers of all, each offer once. A request goes to\n" +
			"the first broker that answers, or to --broker NAME. The cluster counts what it lends once, across all\n" +
			"brokers. The cluster keeps a broker that does not answer. As an object: kind Broker.",
		Example: "  bourse brokers\n  bourse brokers add north --join TOKEN\n  bourse brokers disable main",
		RunE:    sh.asUser(listed((*cluster.Client).Brokers, sh.showBrokers)),
	}
	cmd.AddCommand(sh.addBrokerCommand(), sh.switchBrokerCommand("enable", "Use a disabled broker again", false),
		sh.switchBrokerCommand("disable", "Stop using a broker until it is enabled; existing reservations stay",
			true), sh.removeBrokerCommand())
	return sh.watchable(cmd)
}

var brokerNames = idsOf((*cluster.Client).Brokers)

// knownBrokerOf returns the broker of that name. Errors: NotFound.
func knownBrokerOf(ctx context.Context, c *cluster.Client, name string) (knownBroker, error) {
	return find(ctx, c, (*cluster.Client).Brokers, name,
		api.Errorf(api.CodeNotFound, "this cluster has no broker %.63q", name).FixBy("see", "bourse", "brokers"))
}

func (sh *shell) showBrokers(all []knownBroker) error {
	connected := func(b knownBroker) metav1.Condition {
		return conditionOf(b.Payload.Status.Conditions, api.ConditionConnected)
	}
	since := func(t metav1.Time, never string) string {
		if t.IsZero() {
			return never
		}
		return ago(t.Time)
	}
	return show(sh, all, "", []column[api.KnownBroker]{
		{"NAME", false, func(b knownBroker) string { return b.ID }},
		{"STATE", false, func(b knownBroker) string { return connected(b).Reason }},
		{"SINCE", true, func(b knownBroker) string { return since(connected(b).LastTransitionTime, "") }},
		{"LAST CONTACT", false, func(b knownBroker) string { return since(b.Payload.LastHeard, "never") }},
		{"RESERVATIONS", false, func(b knownBroker) string { return strconv.Itoa(b.Payload.Reservations) }},
		{"URL", false, func(b knownBroker) string { return b.Payload.Status.URL }},
	})
}

func (sh *shell) addBrokerCommand() *cobra.Command {
	spec := api.BrokerSpec{}
	cmd := &cobra.Command{
		Use: "add NAME [--join TOKEN] [--url URL]", Short: "Join another broker, or change the URL of one",
		Args: cobra.ExactArgs(1),
		Long: "Add joins a broker with a token of its operator (bourse broker token create), under a name of your\n" +
			"choice, and waits for the connection. For a broker that you already have, it sets a new token or URL,\n" +
			"for example after a move.",
		Example: "  bourse brokers add north --join TOKEN\n" +
			"  bourse brokers add north --url https://bourse.north.example:7443",
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			b, err := c.EditBroker(ctx, args[0], func(b *api.BrokerSpec) {
				b.Join, b.URL = cmp.Or(spec.Join, b.Join), cmp.Or(spec.URL, b.URL)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "broker %s is written; waiting for the connection (to follow: bourse brokers -w)\n", b.ID)
			return sh.awaitBroker(ctx, c, b)
		}),
	}
	cmd.Flags().StringVar(&spec.Join, "join", "", "join token of the broker's operator; it can be used once")
	cmd.Flags().StringVar(&spec.URL, "url", "", "URL of the broker, https://HOST:PORT (default: the one in the token)")
	return cmd
}

// awaitBroker waits for the connection to a broker, with a time limit, and shows the broker.
func (sh *shell) awaitBroker(ctx context.Context, c *cluster.Client, b knownBroker) error {
	var condition *metav1.Condition
	b, err := await(ctx, b, c.Brokers, func(now knownBroker) bool {
		condition = observed(now.Payload.Status.Conditions, api.ConditionConnected, b.Revision)
		return condition != nil && (condition.Status == metav1.ConditionTrue || condition.Reason == "NotJoined" ||
			condition.Reason == "Disabled")
	})
	if err != nil {
		return err
	}
	if condition != nil && condition.Reason == "NotJoined" {
		return api.Errorf(api.CodeUnavailable, "could not join broker %s: %s", b.ID, api.WithoutCode(condition.Message)).
			Fix("try another token: bourse brokers add %s --join TOKEN", b.ID)
	}
	return sh.showBrokers([]knownBroker{b})
}

func (sh *shell) switchBrokerCommand(verb, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		ValidArgsFunction: complete(sh.agentClient, brokerNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			b, err := knownBrokerOf(ctx, c, args[0])
			if err != nil {
				return err
			}
			if b, err = c.EditBroker(ctx, b.ID, func(b *api.BrokerSpec) { b.Disabled = disabled }); err != nil {
				return err
			}
			return sh.awaitBroker(ctx, c, b)
		}),
	}
}

func (sh *shell) removeBrokerCommand() *cobra.Command {
	return sh.asksFirst(&cobra.Command{
		Use:   "remove NAME",
		Short: "Leave a broker and forget this cluster's identity there; existing reservations stay to their end",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, brokerNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			err := sh.ask(ctx, "Leave broker "+args[0]+"? To join it again, you need a new token.")
			if err != nil {
				return err
			}
			known, err := knownBrokerOf(ctx, c, args[0])
			if err == nil {
				err = c.DeleteBroker(ctx, args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "Broker %s is removed.\n", args[0])
			if !known.Payload.LastHeard.IsZero() {
				fmt.Fprintln(sh.progress, "Its operator still lists this cluster until they remove it.")
			}
			return nil
		}),
	})
}
