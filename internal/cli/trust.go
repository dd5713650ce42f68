package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

func (sh *shell) trustCommand() *cobra.Command {
	forget := false
	cmd := &cobra.Command{
		Use: "trust [CLUSTER FINGERPRINT]", GroupID: "use", Short: "Say which key a cluster has, or list what is known of keys",
		Long: "Each cluster has a key of its own, by which it signs what it agrees to. At the first contact yours believes the broker\n" +
			"which key another has; any later change is KeyChanged, and nothing is agreed with that cluster any more. Confirm a key to\n" +
			"not depend on the broker: ask the other cluster's admin, on a way that is not the broker's, what `bourse status` says\n" +
			"there, and say it here. With `trust: pinned` in the SharingPolicy only confirmed keys are believed.",
		Example: "  bourse trust\n  bourse trust milan SHA256:...\n  bourse trust milan --forget",
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: sh.complete(func(ctx context.Context, c *client.Client) ([]string, error) {
			peers, err := c.Peers(ctx)
			return ids(peers), err
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.person()
			if err != nil {
				return err
			}
			switch {
			case len(args) == 0:
				all, err := c.Peers(cmd.Context())
				if err != nil {
					return err
				}
				return sh.showPeers(all)
			case len(args) == 1 && !forget, len(args) == 2 && forget:
				return api.Errorf(api.CodeInvalid, "a cluster and either its fingerprint or --forget").Fix("usage: bourse trust CLUSTER FINGERPRINT")
			}
			fingerprint := ""
			if len(args) == 2 {
				fingerprint = args[1]
			}
			one, err := c.Trust(cmd.Context(), args[0], fingerprint)
			if err != nil {
				return err
			}
			return sh.awaitPeer(cmd.Context(), c, one)
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "take back what was said of the cluster; the key that is pinned stays so")
	return cmd
}

// awaitPeer waits a while until the agent has taken in what was said of a cluster, and shows it.
func (sh *shell) awaitPeer(ctx context.Context, c *client.Client, said api.Envelope[api.KnownPeer]) error {
	now, err := await(ctx, said, c.Peers, func(now api.Envelope[api.KnownPeer]) bool {
		return observed(now.Payload.Status.Conditions, api.ConditionTrusted, said.Revision) != nil
	})
	if err != nil {
		return err
	}
	return sh.showPeers([]api.Envelope[api.KnownPeer]{now})
}

func (sh *shell) showPeers(items []api.Envelope[api.KnownPeer]) error {
	type peer = api.Envelope[api.KnownPeer]
	return show(sh, items, "No other cluster was met yet, and the key of none was confirmed.",
		column[api.KnownPeer]{"CLUSTER", false, func(p peer) string { return p.ID }},
		column[api.KnownPeer]{"PINNED", false, func(p peer) string { return p.Payload.Status.Fingerprint }},
		column[api.KnownPeer]{"TRUSTED", false, func(p peer) string {
			if c := meta.FindStatusCondition(p.Payload.Status.Conditions, api.ConditionTrusted); c != nil {
				return string(c.Status) + " (" + c.Reason + ")"
			}
			return ""
		}},
		column[api.KnownPeer]{"SUSPENDED", false, func(p peer) string { return fmt.Sprint(p.Payload.Spec.Suspend) }},
		column[api.KnownPeer]{"CONFIRMED", true, func(p peer) string { return p.Payload.Spec.Fingerprint }},
	)
}
