package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use: "audit CLUSTER", GroupID: "use",
		Short: "List everything that another cluster can do in yours, and what it runs there",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			a, err := sh.audit(ctx, c, args[0])
			if err != nil {
				return err
			}
			if sh.encodes() {
				return sh.encode(a)
			}
			writeAudit(sh.out, a)
			return nil
		}),
	}
}

func (sh *shell) evictCommand() *cobra.Command {
	var given []string
	return sh.takesDigest(&cobra.Command{
		Use: "evict CLUSTER", GroupID: "use", Short: "End all reservations of another cluster in yours",
		Long: "Evict lists what will end and, at a terminal, asks. Elsewhere it ends what has the digest that you give\n" +
			"(bourse audit). The other cluster is notified and has some time to move its pods; the rest is deleted. It\n" +
			"works without the broker. Run bourse suspend first: else the other cluster can reserve more meanwhile,\n" +
			"which changes the digest, and can come back.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			a, err := sh.audit(ctx, c, args[0])
			if err != nil {
				return err
			}
			writeAudit(sh.progress, a)
			err = sh.agree(ctx, agreement{given: given, digest: a.Digest,
				shown:    explain.Count(len(a.Reservations), "reservation") + " of " + args[0] + " here will end",
				question: "Evict " + args[0] + "? Its pods here will be deleted, and its volumes with them.",
				command:  "bourse evict " + args[0]})
			if err != nil {
				return err
			}
			e, err := c.Evict(ctx, a)
			if err != nil {
				return err
			}
			for _, id := range e.Reservations {
				fmt.Fprintln(sh.out, id)
			}
			fmt.Fprintf(sh.progress, "%s will end. To follow: bourse audit %s\n",
				explain.Count(len(e.Reservations), "reservation"), args[0])
			return nil
		}),
	}, &given, "bourse audit")
}

// audit returns what a cluster can do here. Errors: NotFound for a name that no cluster has, and that has nothing here.
func (sh *shell) audit(ctx context.Context, c *cluster.Client, cluster string) (api.Audit, error) {
	a, err := c.Audit(ctx, cluster)
	if err == nil && a.Fingerprint == "" && len(a.Reservations)+len(a.Bindings)+len(a.Namespaces) == 0 {
		err = sh.checkClusters(ctx, c, "", "see: bourse trust", cluster)
	}
	return a, err
}

func writeAudit(out io.Writer, a api.Audit) {
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			lines = []string{"none"}
		}
		fmt.Fprintf(out, "%s:\n", title)
		for _, l := range lines {
			fmt.Fprintf(out, "  %s\n", l)
		}
	}
	fmt.Fprintf(out, "cluster %s, key %s\n", a.Cluster, cmp.Or(a.Fingerprint, "never seen"))
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(a.Reservations)) {
		lines = append(lines, id+"  "+explain.Sizes(a.Reservations[id]))
	}
	list("reservations", lines)
	if a.Digest != "" {
		fmt.Fprintf(out, "digest of the reservations: %s\n", a.Digest)
	}
	list("rights", a.Bindings)
	lines = nil
	for _, c := range a.Certificates {
		lines = append(lines, fmt.Sprintf("%s until %s", c.User, c.Until.UTC().Format(time.RFC3339)))
	}
	list("certificates", lines)
	lines = nil
	for _, user := range slices.Sorted(maps.Keys(a.Quotas)) {
		lines = append(lines, user+"  "+explain.Sizes(a.Quotas[user]))
	}
	list("quotas", lines)
	list("network", a.Network)
	lines = nil
	for _, n := range a.Namespaces {
		lines = append(lines, fmt.Sprintf("%s  %d pods, volumes: %s",
			n.Name, n.Pods, cmp.Or(strings.Join(n.Volumes, ", "), "none")))
	}
	list("namespaces", lines)
}
