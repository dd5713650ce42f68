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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func resourceName(name string) corev1.ResourceName { return corev1.ResourceName(name) }

func (sh *shell) clustersCommand() *cobra.Command {
	w := &wish{}
	var pods []string
	cmd := &cobra.Command{
		Use: "clusters [CLUSTER]", GroupID: "use", Short: "List the clusters that your cluster may see, and their capacity",
		Long: "Clusters lists the clusters that your cluster may see. STATE is Fresh, SharesNothing, Silent,\n" +
			"Overcommitted, InUse or Disabled. A Silent cluster's agent does not answer. An Overcommitted one has\n" +
			"less than it lends. An InUse one has what your cluster lends on as a hub. Your cluster enabled others\n" +
			"than a Disabled one at its broker. None of these gets new reservations of ResourceRequests. A hub lends\n" +
			"what it borrows: bourse reserve considers it with --aggregated, or as the --target. With --fit\n" +
			"it lists how much of an amount the best clusters can serve now, at most eight, and the sum of all that\n" +
			"qualify. It reserves nothing.",
		Example: "  bourse clusters --fit cpu=200,memory=800Gi --where 'region == \"eu\"' --pods cpu=8,memory=32Gi",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: complete(sh.agentClient, clusterNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			if len(w.Request.Resources) > 0 {
				return sh.showFits(ctx, c, w, pods)
			}
			if len(args) == 1 {
				cluster, err := c.Cluster(ctx, args[0])
				if err != nil {
					return err
				}
				return sh.showClusters([]api.Envelope[api.Cluster]{cluster})
			}
			return listed((*cluster.Client).Clusters, sh.showClusters)(ctx, c, args)
		}),
	}
	f, r := cmd.Flags(), &w.Request
	amountsVar(f, &r.Resources, "fit", "list how much of these amounts fits where: NAME=AMOUNT")
	f.StringArrayVar(&pods, "pods", nil,
		"with --fit: count the pods with these requests that have room; may be repeated (NAME=AMOUNT,...)")
	f.StringVar(&r.Where, "where", "", "with --fit: CEL expression over the properties of clusters")
	f.StringVar(&r.Pool, "pool", "", "with --fit: pool (default general)")
	priceVar(f, &r.MaxPrice, "max-price",
		"with --fit: also consider clusters that sell it, up to this price")
	optionalDurationVar(f, &r.Duration, "for", "with --fit: for how long (default 24h)")
	return sh.watchable(cmd)
}

// showFits shows how much of an amount fits where.
func (sh *shell) showFits(ctx context.Context, c *cluster.Client, w *wish, pods []string) error {
	ask := api.EvaluationCreate{Request: w.Request, Fitting: api.Fitting{Fits: 8}}
	for _, shape := range pods {
		var pod api.Resources
		if err := readAmounts(&pod, "--pods", shape); err != nil {
			return err
		}
		ask.Pods = append(ask.Pods, pod)
	}
	sh.checkResources(ctx, c, "--fit", w.Request.Resources)
	e, err := c.Fit(ctx, ask)
	if err != nil {
		return err
	}
	if sh.encodes() {
		return sh.encode(e.Fits)
	}
	if e.Fits == nil {
		return api.Errorf(api.CodeUnavailable, "the broker is too old for --fit").
			Fix("upgrade the broker; see bourse clusters")
	}
	head := []string{"CLUSTER", "FITS"}
	for _, shape := range pods {
		head = append(head, "PODS OF "+shape)
	}
	rows := [][]string{append(head, "BUYS")}
	for _, f := range e.Fits.Clusters {
		row := []string{f.Cluster, explain.Sizes(f.Resources)}
		for _, n := range f.Pods {
			row = append(row, strconv.FormatInt(n, 10))
		}
		buys := ""
		if f.Bought != nil {
			buys = fmt.Sprintf("%d of %s, %s", f.Bought.Units, f.Bought.Plan, cmp.Or(f.Bought.Cost, "free"))
		}
		rows = append(rows, append(row, buys))
	}
	if err := sh.table(rows); err != nil {
		return err
	}
	fmt.Fprintf(sh.out, "%s together: %s\n", explain.Count(int(e.Fits.Qualified), "cluster"), explain.Sizes(e.Fits.Sum))
	if w.Request.MaxPrice == nil { // a purchase has one seller
		fmt.Fprintln(sh.out, splitText(w.Request.Resources, e.Fits.Clusters))
	}
	return nil
}

// splitText says in how many equal parts the clusters of an answer could serve an amount.
func splitText(whole api.Resources, fits []api.Fit) string {
	for n := 1; n <= len(fits); n++ {
		part, room := explain.Part(whole, n), 0
		for _, f := range fits {
			if holds(f.Resources, part) {
				room++
			}
		}
		switch {
		case room < n:
		case n == 1:
			return "one cluster has room for all of it"
		default:
			return fmt.Sprintf("with --split %d: %s have room for one of %[1]d parts of %[3]s", n, explain.Count(room, "cluster"), explain.Sizes(part))
		}
	}
	return "no --split serves all of it: its parts are equal, and each needs another cluster"
}

// holds reports whether an amount is at least another.
func holds(amount, least api.Resources) bool {
	for name, need := range least {
		if has := amount[name]; has.Cmp(need) < 0 {
			return false
		}
	}
	return true
}

type clusterItem = api.Envelope[api.Cluster]

func (sh *shell) showClusters(items []clusterItem) error {
	of := func(part func(api.Amounts) api.Resources, name string) func(clusterItem) string {
		return func(c clusterItem) string { return sumText(c.Payload.Pools, part, name) }
	}
	available := func(a api.Amounts) api.Resources { return a.Available }
	reserved := func(a api.Amounts) api.Resources { return a.Reserved }
	writeLines(sh.progress, explain.PassedOver(items)...)
	writeLines(sh.progress, explain.Quiet(items)...)
	const none = "No cluster is visible yet. Providers become visible when they have a SharingPolicy."
	return show(sh, items, none, []column[api.Cluster]{
		{"CLUSTER", false, func(c clusterItem) string { return c.ID }},
		{"STATE", false, func(c clusterItem) string { return explain.ClusterState(c.Payload) + hubMark(c.Payload) }},
		{"REGION", false, func(c clusterItem) string { return c.Payload.Properties.Region }},
		{"CPU FREE", false, of(available, "cpu")},
		{"CPU RESERVED", true, of(reserved, "cpu")},
		{"MEMORY FREE", false, of(available, "memory")},
		{"MEMORY RESERVED", true, of(reserved, "memory")},
		{"GPUS", false, func(c clusterItem) string { return strings.Join(c.Payload.Properties.GPUs, ",") }},
		{"UPTIME", true, func(c clusterItem) string { return explain.Percent(c.Payload.Uptime) }},
		{"LAST HEARD", true, func(c clusterItem) string { return explain.LastHeard(c.Payload) }},
		{"HONOURED", true, func(c clusterItem) string { return explain.Percent(c.Payload.Honoured) }},
		{"POOLS", true,
			func(c clusterItem) string { return strings.Join(slices.Sorted(maps.Keys(c.Payload.Pools)), ",") }},
		{"ARCHITECTURES", true,
			func(c clusterItem) string { return strings.Join(c.Payload.Properties.Architectures, ",") }},
		{"KUBERNETES", true, func(c clusterItem) string { return c.Payload.Properties.Kubernetes }},
		{"ZONES", true, func(c clusterItem) string { return strings.Join(c.Payload.Properties.Zones, ",") }},
	})
}

// besideWithin is how long a command waits for what it shows beside its own answer.
const besideWithin = 5 * time.Second

// warnOfPassedOver names, above what a command shows, the clusters that this one passes over for each new request.
func (sh *shell) warnOfPassedOver(ctx context.Context, c *cluster.Client) {
	ctx, cancel := context.WithTimeout(ctx, besideWithin)
	defer cancel()
	all, err := c.Clusters(ctx)
	sh.noteUnread("clusters", err)
	writeLines(sh.progress, explain.PassedOver(all)...)
}

// noteUnread says what a command could not read that it shows beside its own answer, and why.
func (sh *shell) noteUnread(what string, err error) {
	if err != nil {
		fmt.Fprintf(sh.progress, "the %s could not be read: %s\n", what, err)
	}
}

func hubMark(c api.Cluster) string {
	if c.Properties.Aggregator {
		return " (hub)"
	}
	return ""
}

// ownStatus returns the status of this cluster's agent, and a client of it.
func (sh *shell) ownStatus(ctx context.Context) (*cluster.Client, api.AgentStatus, error) {
	c, err := sh.agentClient()
	if err != nil {
		return nil, api.AgentStatus{}, err
	}
	s, err := c.Status(ctx)
	return c, s, err
}

func (sh *shell) statusCommand() *cobra.Command {
	wait := time.Duration(0)
	cmd := &cobra.Command{
		Use: "status", GroupID: "use",
		Short: "Show this cluster's agent: ID, fingerprint, broker, sharing", Args: cobra.NoArgs,
		Long: "Status shows who the cluster is and whether its agent is connected to the broker. If not, the exit code is 6.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, s, err := sh.ownStatus(cmd.Context())
			for end := time.Now().Add(wait); (err != nil || !s.Connected && s.Broker != "") && time.Now().Before(end); {
				if pause(cmd.Context(), time.Second) {
					return cmd.Context().Err()
				}
				c, s, err = sh.ownStatus(cmd.Context())
			}
			if err != nil {
				return err
			}
			sh.warnOfUnready(cmd.Context(), c)
			if s.Connected {
				sh.warnOfPassedOver(cmd.Context(), c)
			}
			alone := s.Broker == ""
			var lost error
			if !s.Connected && !alone {
				fix := "the agent tries again now: repeat the command, or see: bourse doctor"
				if strings.Contains(s.Problem, "bourse brokers enable") {
					fix = "enable it: bourse brokers enable " + api.MainBroker
				}
				lost = api.Errorf(api.CodeUnavailable, "the agent is not connected to its broker").Fix("%s", fix)
			}
			if sh.encodes() {
				return cmp.Or(sh.encode(s), lost)
			}
			connected := "connected"
			if alone {
				s.Broker, connected = "none", "by connectors only"
			} else if !s.Connected {
				connected = "not connected: " + s.Problem
				if !s.LastHeard.IsZero() {
					connected += "; last heard " + ago(s.LastHeard.Time)
				}
			}
			sharing := "shares nothing: no SharingPolicy is in force"
			if s.Sharing {
				sharing = "shares what its SharingPolicy says"
			}
			return cmp.Or(sh.table([][]string{{"cluster", s.Cluster}, {"fingerprint", s.Fingerprint},
				{"broker", s.Broker}, {"connection", connected}, {"sharing", sharing}}), lost)
		},
	}
	durationVar(cmd.Flags(), &wait, "wait", 0, "how long to wait until the agent runs and is connected to its broker")
	return cmd
}

// sumText returns one resource of all pools in a readable form. It is empty if no pool has it.
func sumText(pools map[string]api.Amounts, part func(api.Amounts) api.Resources, name string) string {
	var sum resource.Quantity
	known := false
	for _, pool := range pools {
		if q, has := part(pool)[resourceName(name)]; has {
			known = true
			sum.Add(q)
		}
	}
	if !known {
		return ""
	}
	return explain.Quantity(sum, name)
}
