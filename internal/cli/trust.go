package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

func (sh *shell) trustCommand() *cobra.Command {
	forget := false
	cmd := &cobra.Command{
		Use: "trust [CLUSTER FINGERPRINT]", GroupID: "use", Short: "Confirm the key of another cluster, or list all keys",
		Long: "Each cluster signs what it agrees to with its own key. At the first contact the broker\n" +
			"tells your cluster the key of another cluster, and your cluster pins it. Any later change is KeyChanged:\n" +
			"nothing new is agreed with that cluster. To not depend on the broker, confirm the key. Ask the other\n" +
			"admin for the fingerprint (bourse status) over another channel than the broker. Then give it here.\n" +
			"With `trust: pinned` in the SharingPolicy, only confirmed keys are trusted.",
		Example:           "  bourse trust\n  bourse trust milan SHA256:...\n  bourse trust milan --forget",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: complete(sh.agentClient, idsOf((*cluster.Client).Peers)),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			switch {
			case len(args) == 0:
				return listed((*cluster.Client).Peers, sh.showPeers)(ctx, c, args)
			case len(args) == 1 && !forget, len(args) == 2 && forget:
				return api.Errorf(api.CodeInvalid, "the command needs a cluster, and either its fingerprint or --forget").
					Fix("usage: bourse trust CLUSTER FINGERPRINT, or bourse trust CLUSTER --forget")
			}
			fingerprint := ""
			if len(args) == 2 {
				fingerprint = args[1]
			}
			fix := ""
			if forget {
				fix = "see: bourse trust"
			}
			if err := sh.checkClusters(ctx, c, "", fix, args[0]); err != nil {
				return err
			}
			peer, err := c.Trust(ctx, args[0], fingerprint)
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, peer, false)
		}),
	}
	cmd.Flags().BoolVar(&forget, "forget", false,
		"withdraw your confirmation and the address that you named; the pinned key stays pinned")
	return cmd
}

func (sh *shell) showPeers(items []api.Envelope[api.KnownPeer]) error {
	type peer = api.Envelope[api.KnownPeer]
	return show(sh, items, "Your cluster knows no other cluster yet, and has confirmed no key.", []column[api.KnownPeer]{
		{"CLUSTER", false, func(p peer) string { return p.ID }},
		{"PINNED", false, func(p peer) string { return p.Payload.Status.Fingerprint }},
		{"TRUSTED", false, func(p peer) string {
			text := ""
			if c := conditionOf(p.Payload.Status.Conditions, api.ConditionTrusted); c.Status != "" {
				text = string(c.Status) + " (" + c.Reason + ")"
			}
			if p.Payload.Spec.Suspend {
				text += ", suspended"
			}
			return text
		}},
		{"SUSPENDED", true, func(p peer) string { return fmt.Sprint(p.Payload.Spec.Suspend) }},
		{"ADDRESS", true, func(p peer) string { return p.Payload.Spec.Address }},
		{"CONFIRMED", true, func(p peer) string { return p.Payload.Spec.Fingerprint }},
	})
}

func (sh *shell) peersCommand() *cobra.Command {
	var fingerprint, address string
	add := &cobra.Command{
		Use:   "add CLUSTER --fingerprint FINGERPRINT",
		Short: "Name the key and the connector of another cluster, to deal with it without a broker",
		Long: "Both admins add the other cluster: the buyer with the address of the seller's connector, the seller\n" +
			"without one. Ask the other admin for the fingerprint (bourse status). Your agent calls the address. It\n" +
			"deals with the cluster only if the connector proves that it has this key. The other's offers are then in\n" +
			"bourse catalog, and bourse buy goes there directly. Stored in the Peer of that name.",
		Example: "  bourse peers add milan --fingerprint SHA256:... --address bourse.milan.example:7444\n" +
			"  bourse peers add rome --fingerprint SHA256:...",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, idsOf((*cluster.Client).Peers)),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			if fingerprint == "" {
				return api.Invalid("--fingerprint", "is missing").Fix("ask the other admin for it: bourse status")
			}
			peer, err := c.AddPeer(ctx, args[0], fingerprint, address)
			if err != nil {
				return err
			}
			return sh.awaitPeer(ctx, c, peer, peer.Payload.Spec.Address != "")
		}),
	}
	add.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint of the cluster's key (bourse status there)")
	add.Flags().StringVar(&address, "address", "",
		"address of the cluster's connector, HOST:PORT (default: the one that is known)")
	cmd := &cobra.Command{
		Use: "peers", GroupID: "use", Short: "List the clusters that this one knows, or add one", Args: cobra.NoArgs,
		RunE: sh.asUser(listed((*cluster.Client).Peers, sh.showPeers)),
	}
	cmd.AddCommand(add)
	return sh.watchable(cmd)
}

// awaitPeer waits until the agent has read the change of a Peer and, if it calls, has met the cluster, with a
// time limit. It shows the Peer. Errors: Unavailable, and why the cluster could not be called.
func (sh *shell) awaitPeer(ctx context.Context, c *cluster.Client,
	peer api.Envelope[api.KnownPeer], calls bool) error {
	var trusted *metav1.Condition
	now, err := await(ctx, peer, c.Peers, func(now api.Envelope[api.KnownPeer]) bool {
		trusted = observed(now.Payload.Status.Conditions, api.ConditionTrusted, peer.Revision)
		return trusted != nil && (!calls || trusted.Status == metav1.ConditionTrue)
	})
	if err == nil {
		err = sh.showPeers([]api.Envelope[api.KnownPeer]{now})
	}
	if err == nil && calls && trusted != nil && trusted.Status != metav1.ConditionTrue {
		err = api.Errorf(api.CodeUnavailable, "%s", trusted.Message).
			Fix("the agent tries again by itself; check address and fingerprint, and that its admin added this cluster")
	}
	return err
}
