package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

type virtualNodePool = api.Envelope[api.KnownVirtualNodePool]

func (sh *shell) vnpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "vnp", GroupID: "use", Short: "List the VirtualNodePools of this cluster", Args: cobra.NoArgs,
		Long: "A VirtualNodePool is a set of virtual nodes that this cluster keeps as large as demand needs. An admin\n" +
			"writes it as an object: kind VirtualNodePool. CPU and MEMORY are used, reserved and max.",
		Example: "  bourse vnp plan -f burst.yaml\n  bourse vnp\n  bourse vnp why burst",
		RunE:    sh.asUser(listed((*cluster.Client).VirtualNodePools, sh.showVNPs)),
	}
	cmd.AddCommand(sh.vnpPlanCommand(), sh.vnpWhyCommand(), sh.vnpStopCommand(),
		sh.vnpAdmitCommand("enable", "Let a provider serve a VirtualNodePool", true,
			"The provider is taken out of spec.providers.exclude. Where spec.providers.only names providers,\n"+
				"it is added there."),
		sh.vnpAdmitCommand("disable", "Keep a provider from serving a VirtualNodePool", false,
			"The provider is taken out of spec.providers.only, or added to spec.providers.exclude. If it serves\n"+
				"the pool, it is replaced: its pods move within their PodDisruptionBudgets. If it has volumes, it\n"+
				"stays until you give them up."))
	return sh.watchable(cmd)
}

func (sh *shell) showVNPs(all []virtualNodePool) error {
	return show(sh, all, "No VirtualNodePool yet. Write one: docs/objects/virtualnodepool.yaml",
		[]column[api.KnownVirtualNodePool]{
			{"NAME", false, func(p virtualNodePool) string { return p.ID }},
			{"READY", false, func(p virtualNodePool) string {
				return string(conditionOf(p.Payload.Status.Conditions, api.ConditionReady).Status)
			}},
			{"CPU", false, func(p virtualNodePool) string { return p.Payload.Status.CPU }},
			{"MEMORY", false, func(p virtualNodePool) string { return p.Payload.Status.Memory }},
			{"PROVIDERS", false, func(p virtualNodePool) string { return strconv.Itoa(int(p.Payload.Status.InUse)) }},
			{"COST", false, func(p virtualNodePool) string { return p.Payload.Status.Cost }},
			{"WHY", false, func(p virtualNodePool) string {
				if len(p.Payload.Status.Conditions) == 0 {
					return "no agent of a cluster with Liqo has processed it yet"
				}
				return p.Payload.Status.Why
			}},
		})
}

var vnpNames = idsOf((*cluster.Client).VirtualNodePools)

// findVNP returns the VirtualNodePool of that name. Errors: NotFound.
func findVNP(ctx context.Context, c *cluster.Client, name string) (virtualNodePool, error) {
	return find(ctx, c, (*cluster.Client).VirtualNodePools, name,
		api.Errorf(api.CodeNotFound, "this cluster has no VirtualNodePool %.63q", name).FixBy("see", "bourse", "vnp"))
}

func (sh *shell) vnpWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why NAME", Short: "Explain why a VirtualNodePool has its size, and which pods do not count",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete(sh.agentClient, vnpNames), Example: "  bourse vnp why burst",
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			p, err := findVNP(ctx, c, args[0])
			if err != nil {
				return err
			}
			if err := sh.explainVNP(&p); err != nil || sh.encodes() {
				return err
			}
			all, err := c.Clusters(ctx)
			if err != nil {
				return nil // no broker answers, and the state says so
			}
			clusters := slices.DeleteFunc(all, func(item clusterItem) bool {
				return !slices.ContainsFunc(p.Payload.Status.Providers,
					func(provider api.PoolProvider) bool { return provider.Name == item.ID })
			})
			writeLines(sh.out, explain.PassedOver(clusters)...)
			writeLines(sh.out, explain.Quiet(clusters)...)
			return nil
		}),
	}
}

// explainVNP prints the state of a VirtualNodePool: its conditions that are not as they should be, the
// pods that wait, and its providers.
func (sh *shell) explainVNP(p *virtualNodePool) error {
	s := &p.Payload.Status
	if sh.encodes() {
		return sh.encode(p)
	}
	size := "cpu " + cmp.Or(s.CPU, "none")
	if s.Memory != "" {
		size += ", memory " + s.Memory
	}
	fmt.Fprintf(sh.out, "%s: %s (used/reserved/max) at %s", p.ID, size, explain.Count(int(s.InUse), "provider"))
	if s.Cost != "" {
		fmt.Fprintf(sh.out, ", %s", s.Cost)
	}
	fmt.Fprintln(sh.out)
	for _, c := range s.Conditions {
		if !api.IsFaultOfPool(c) {
			continue
		}
		fmt.Fprintln(sh.out, strings.TrimSuffix(fmt.Sprintf("%s: %s, %s: %s", c.Type, c.Status, c.Reason, c.Message), ": "))
	}
	if s.Pending.Counted == 0 && len(s.Pending.Not) == 0 && p.Payload.Spec.Demand != api.DemandFixed {
		fmt.Fprintln(sh.out, "no pod of its namespaces waits for a node")
	}
	if s.Pending.Counted > 0 {
		fmt.Fprintln(sh.out, "pending pods that count:", s.Pending.Counted)
	}
	for _, not := range s.Pending.Not {
		fmt.Fprintf(sh.out, "pending pods that do not count: %d (%s), such as %s: %s\n",
			not.Count, not.Reason, not.Example, not.Message)
	}
	if len(s.Providers) == 0 {
		return nil
	}
	rows := [][]string{{"PROVIDER", "STATE", "CPU", "MEMORY", "COST", "UNTIL", "REQUEST"}}
	for _, provider := range s.Providers {
		rows = append(rows, []string{provider.Name, provider.State, provider.Reserved.Cpu().String(),
			provider.Reserved.Memory().String(),
			provider.Cost, explain.Time(&provider.Until), provider.Request})
	}
	return sh.table(rows)
}
