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
		Use: "trust [CLUSTER FINGERPRINT]", GroupID: "use", Short: "Confirm the key of another cluster, or list all keys",
		Long: "Each cluster signs what it agrees to with its own key. At the first contact your cluster believes the broker which key another\n" +
			"cluster has, and pins it. Any later change is KeyChanged: nothing new is agreed with that cluster. To not depend on the\n" +
			"broker, confirm the key. Ask the other admin for the fingerprint (bourse status) over another channel than the broker. Then\n" +
			"give it here. With `trust: pinned` in the SharingPolicy, only confirmed keys are trusted.",
		Example: "  bourse trust\n  bourse trust milan SHA256:...\n  bourse trust milan --forget",
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: sh.complete(sh.person, func(ctx context.Context, c *client.Client) ([]string, error) {
			peers, err := c.Peers(ctx)
			return ids(peers), err
		}),
		RunE: sh.asUser(func(ctx context.Context, c *client.Client, args []string) error {
			switch {
			case len(args) == 0:
				all, err := c.Peers(ctx)
				if err != nil {
					return err
				}
				return sh.showPeers(all)
			case len(args) == 1 && !forget, len(args) == 2 && forget:
				return api.Errorf(api.CodeInvalid, "the command needs a cluster, and either its fingerprint or --forget").
					Fix("usage: bourse trust CLUSTER FINGERPRINT")
			}
			fingerprint := ""
			if len(args) == 2 {
				fingerprint = args[1]
			}
			one, err := c.Trust(ctx, args[0], fingerprint)
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, one)
		}),
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "withdraw your confirmation; the pinned key stays pinned")
	return cmd
}

// awaitPeer waits until the agent has read the change of a Peer, with a time limit, and shows the Peer.
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
	return show(sh, items, "Your cluster knows no other cluster yet, and has confirmed no key.",
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
