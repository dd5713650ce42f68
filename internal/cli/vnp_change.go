package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/payload"
)

func (sh *shell) vnpPlanCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what a VirtualNodePool would reserve now, at which providers and for how much", Args: cobra.NoArgs,
		Long: "Plan reads a VirtualNodePool from a file and writes nothing: no object, no reservation. It counts the\n" +
			"pods that wait in its namespaces, asks the broker what fits where, and shows the pool as it would then\n" +
			"be. Providers are Planned, or Larger if they serve the pool already. If no VirtualNodePool has that\n" +
			"name, the pods count as if they were made after it. The exit code is 5 if the pool would not meet its\n" +
			"demand.",
		Example: "  bourse vnp plan -f burst.yaml",
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, _ []string) error {
			pool, err := readVNP(file)
			if err != nil {
				return err
			}
			status, err := c.PlanVirtualNodePool(ctx, pool.Name, pool.Spec)
			if err != nil {
				return err
			}
			out := virtualNodePool{ID: pool.Name, Payload: api.KnownVirtualNodePool{Spec: pool.Spec, Status: status}}
			if err := sh.explainVNP(&out); err != nil {
				return err
			}
			if meta.IsStatusConditionTrue(status.Conditions, api.ConditionReady) {
				return nil
			}
			taken := conditionOf(status.Conditions, api.ConditionNamespaceTaken)
			return api.Errorf(api.CodeNoCandidate, "the pool would not meet its demand: %s",
				cmp.Or(status.Why, taken.Message, "it would still grow"))
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with a VirtualNodePool, as YAML; - is standard input")
	return cmd
}

// readVNP reads a VirtualNodePool.
func readVNP(file string) (*api.VirtualNodePool, error) {
	if file == "" {
		return nil, api.Invalid("--file", "no value given").Fix("see: docs/objects/virtualnodepool.yaml")
	}
	data, err := readLimited(file, maxContract, "a VirtualNodePool")
	if err != nil {
		return nil, err
	}
	pool := &api.VirtualNodePool{}
	if err := payload.ReadYAML(data, pool); err != nil {
		return nil, api.Invalid("FILE", "%s does not contain a VirtualNodePool: %s", file, err)
	}
	if pool.Kind != "VirtualNodePool" || pool.Name == "" {
		return nil, api.Invalid("FILE", "%s does not contain a VirtualNodePool with a name", file).
			Fix("begin with docs/objects/virtualnodepool.yaml")
	}
	return pool, nil
}

func (sh *shell) vnpAdmitCommand(verb, short string, admitted bool, long string) *cobra.Command {
	unknown := false
	cmd := &cobra.Command{
		Use: verb + " NAME CLUSTER", Short: short, Args: cobra.ExactArgs(2),
		Long: long +
			"\nIf Argo CD or Flux keeps the object as it is in Git, nothing is changed: the error says what to write there.",
		Example: "  bourse vnp " + verb + " burst milan",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return complete(sh.agentClient, vnpNames)(cmd, nil, begun)
			case 1:
				return complete(sh.agentClient, clusterNames)(cmd, nil, begun)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			fix := "to name a cluster that may appear later, add --unknown"
			if unknown {
				fix = ""
			}
			before, err := findVNP(ctx, c, args[0])
			if err == nil {
				err = sh.checkClusters(ctx, c, "", fix, args[1])
			}
			if err != nil {
				return err
			}
			p, err := c.AdmitProvider(ctx, args[0], args[1], api.Admission{Admitted: admitted})
			if err != nil {
				return err
			}
			if sh.encodes() {
				return sh.encode(p)
			}
			sh.sayAdmitted(&before, &p, args[1])
			return nil
		}),
	}
	cmd.Flags().BoolVar(&unknown, "unknown", false, "accept a cluster that is not visible now")
	return cmd
}

// sayAdmitted says which providers a pool has after an edit, and what the edit does.
func (sh *shell) sayAdmitted(before, now *virtualNodePool, provider string) {
	providers := now.Payload.Spec.Providers
	switch {
	case before.Payload.Spec.Providers.Admits(provider) == providers.Admits(provider):
		fmt.Fprintln(sh.progress, "nothing to change")
	case !providers.Admits(provider) && slices.ContainsFunc(now.Payload.Status.Providers,
		func(p api.PoolProvider) bool { return p.Name == provider }):
		fmt.Fprintf(sh.progress, "%s is replaced: its pods move within their PodDisruptionBudgets\n", provider)
	}
	text, _ := json.Marshal(providers) // strings and numbers have no text that fails
	fmt.Fprintf(sh.out, "%s: spec.providers: %s\n", now.ID, text)
	if len(providers.Only) > 0 && !slices.ContainsFunc(providers.Only, providers.Admits) {
		fmt.Fprintf(sh.progress, "warning: no provider may serve %s now\n", now.ID)
	}
}

func (sh *shell) vnpStopCommand() *cobra.Command {
	word := ""
	cmd := &cobra.Command{
		Use: "stop NAME", Short: "Delete a VirtualNodePool: empty its virtual nodes, and end its reservations",
		Args: cobra.ExactArgs(1),
		Long: "Pods on the virtual nodes are evicted within their PodDisruptionBudgets. Then the reservations end.\n" +
			"Meanwhile, the object is there and is being deleted. Volumes at the providers are deleted, too. Stop\n" +
			"names them and, at a terminal, asks. Elsewhere it stops nothing that has volumes, unless --volumes-die\n" +
			"has the digest of their list.",
		Example: "  bourse vnp stop burst", ValidArgsFunction: complete(sh.agentClient, vnpNames),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			p, err := findVNP(ctx, c, args[0])
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Stop %s? Its virtual nodes at %s are emptied, and its reservations end.", p.ID,
				explain.Count(len(p.Payload.Status.Providers), "provider"))
			if err := sh.ask(ctx, question); err != nil {
				return err
			}
			err = sh.giveUp(ctx, strings.Fields(word), func(word string) error {
				return c.StopVirtualNodePool(ctx, p.ID, word)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s is being stopped; see: bourse vnp why %s\n", p.ID, p.ID)
			return nil
		}),
	}
	cmd.Flags().StringVar(&word, "volumes-die", "",
		"digest of a list of volumes, from the refusal to delete them: deletes these volumes")
	return sh.asksFirst(cmd)
}
