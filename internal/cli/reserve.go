package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
)

func (sh *shell) reserveCommand() *cobra.Command {
	w := &wish{}
	cmd := &cobra.Command{
		Use: "reserve", GroupID: "use", Short: "Reserve resources of another cluster",
		Long: "Reserve creates a ResourceRequest in your cluster and waits until both clusters are bound. With --wait,\n" +
			"a request that no cluster can serve now waits in the broker's queue, by priority, then age. It keeps\n" +
			"waiting when you interrupt this command.\n" +
			"With --dry-run it creates nothing. It prints the clusters considered, what eliminated each, the scores,\n" +
			"the choice, and the objects that it would create.",
		Example: "  bourse reserve --cpu 4 --memory 8Gi --where 'region == \"eu\"' --for 1h\n" +
			"  bourse reserve --resource nvidia.com/gpu=2 --where '\"NVIDIA-A100-SXM4-80GB\" in gpus' --dry-run\n" +
			"  bourse reserve --cpu 64 --wait 2h --priority 10\n" +
			"  bourse reserve --cpu 300 --split 3",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(w.Request.Resources) == 0 {
				return api.Invalid("--cpu", "nothing is asked for").Fix("give an amount: --cpu 4 --memory 8Gi")
			}
			c, err := sh.agentClient()
			if err != nil {
				return err
			}
			return sh.place(cmd.Context(), c, w)
		},
	}
	f, r := cmd.Flags(), &w.Request
	w.amountFlags(f)
	amountsVar(f, &r.PodShape, "pod-shape",
		"largest pod that will run there, such as cpu=4,memory=16Gi; one node must have that much free")
	optionalDurationVar(f, &r.Duration, "for",
		"how long the reservation lasts (default "+api.DefaultDuration+")")
	f.StringVar(&r.Pool, "pool", "", "pool of the provider (default "+api.GeneralPool+")")
	f.StringVar(&r.Where, "where", "",
		"CEL expression over the provider's properties, such as 'region == \"eu\" && uptime >= 0.99'")
	f.StringToStringVar(&r.Properties, "property", nil,
		"label that the provider must have: NAME=VALUE, may be repeated")
	f.StringVar(&r.Target, "target", "", "the only provider to consider")
	f.StringSliceVar(&r.Exclude, "exclude", nil, "providers not to consider")
	f.BoolVar(&w.excludeUnknown, "exclude-unknown", false, "accept names in --exclude that no visible cluster has")
	f.StringSliceVar(&r.Prefer, "prefer", nil, "providers to prefer, best first")
	f.BoolVar(&r.Aggregated, "aggregated", false, "also consider hubs, which lend on what they borrow")
	f.BoolVar(&r.Relend, "relend", false, "lend on what is reserved: this cluster is a hub")
	f.StringVar((*string)(&r.Strategy), "strategy", "",
		"how to choose: balance (default), pack, reliable, or with --max-price cheap")
	priceVar(f, &r.MaxPrice, "max-price",
		"also consider providers that lend only by offers, up to this price for all of it, such as 3EUR/hour "+
			"(default: do not buy)")
	f.Int32Var(&r.Split, "split", 0,
		"largest number of clusters, with equal parts; all parts are reserved or none (default: one cluster)")
	w.useFlags(cmd)
	return cmd
}

// place creates a ResourceRequest, and follows it.
func (sh *shell) place(ctx context.Context, c *cluster.Client, w *wish) (err error) {
	w.Namespace = cmp.Or(sh.namespace, metav1.NamespaceDefault)
	r := w.Request
	if w.Name != "" && len(validation.IsDNS1123Subdomain(w.Name)) > 0 {
		return api.Invalid("--name", "%.80q is not a name", w.Name).
			Fix("use lower case letters, digits, - and ., and a letter or digit at both ends")
	}
	if w.Offload, err = w.offloading(); err != nil {
		return err
	}
	fix := "to name a cluster that may appear later, add --exclude-unknown"
	if w.excludeUnknown {
		fix = ""
	}
	err = cmp.Or(sh.checkClusters(ctx, c, "--exclude", fix, r.Exclude...),
		sh.checkClusters(ctx, c, "--prefer", "", r.Prefer...),
		sh.checkClusters(ctx, c, "--target", "see: bourse clusters", r.Target))
	if err != nil {
		return err
	}
	if w.Broker != "" { // who may not list the brokers learns it of the request
		if _, err := knownBrokerOf(ctx, c, w.Broker); err != nil && api.CodeOf(err) != api.CodeForbidden {
			return err
		}
	}
	sh.checkResources(ctx, c, "--resource", r.Resources)
	w.Via = vias[w.via]
	e, err := c.DryRun(ctx, w.RequestCreate)
	switch {
	case err == nil && w.dryRun:
		return sh.dryRun(ctx, c, w, e)
	// a request that can never be served is not created; a broker that is away may answer later
	case err != nil && (w.dryRun || !cluster.MayWait(err)):
		return err
	}
	made, err := c.CreateRequest(ctx, w.RequestCreate)
	if err != nil {
		return err
	}
	fmt.Fprintf(sh.progress, "ResourceRequest %s made\n", made.ID)
	if w.noWait {
		return sh.showRequest(made)
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout+ptr.Deref(r.Wait, metav1.Duration{}).Duration)
	defer cancel()
	done, err := sh.follow(ctx, c, made, w.done)
	if err != nil {
		return err
	}
	switch s := done.Payload.Status; {
	case s.State == api.Rejected && s.Reservation != "":
		return sh.rejected(ctx, c, s.Reservation, r.Resources)
	case s.State.Over():
		why := strings.TrimPrefix(api.WithoutCode(s.Message), string(s.State)+": ")
		return api.Errorf(api.CodeInsufficient, "request %s failed: %s", done.ID, why).
			Fix("to remove it: bourse release %s", done.ID)
	default:
		return sh.showRequest(done)
	}
}

// done reports whether there is nothing more to wait for. The request is bound, or Active if it is
// to be used, or over. Or it waits for a user here or for an admin at the provider.
func (w *wish) done(r client.RequestStatus) bool {
	switch r.Payload.Status.State {
	case "", api.Pending:
		return false
	case api.Held:
		return w.Request.Confirm ||
			meta.IsStatusConditionTrue(r.Payload.Status.Conditions, api.ConditionAwaitsApproval)
	case api.Reserved:
		return len(w.offload.Namespaces) == 0 && w.Request.Network != api.NetworkWireGuard
	}
	offloads := len(w.offload.Namespaces) > 0
	if r.Payload.Status.State == api.Active && offloads && len(r.Payload.Steps) > 0 {
		return meta.IsStatusConditionTrue(r.Payload.Steps, api.ConditionOffloaded)
	}
	return r.Payload.Status.State != api.Releasing
}

// follow prints each step of a request until done. Of a request that is bound already it prints only what changes.
func (sh *shell) follow(ctx context.Context, c *cluster.Client,
	made client.RequestStatus, done func(client.RequestStatus) bool) (client.RequestStatus, error) {
	namespace, name, _ := strings.Cut(made.ID, "/")
	told := map[string]string{}
	tell := func(of, now string) {
		if now == "" || told[of] == now {
			return
		}
		told[of] = now
		fmt.Fprintf(sh.progress, "  %s\n", now)
	}
	now, first := made, made.Payload.Status.State == api.Reserved || made.Payload.Status.State == api.Active
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		read, err := c.Request(ctx, namespace, name)
		if err != nil {
			return false, err
		}
		now = read
		for _, step := range describeSteps(now) {
			if first {
				told[step[0]] = step[1]
			}
			tell(step[0], step[1])
		}
		first = false
		return done(now), nil
	})
	if ctx.Err() != nil && err != nil {
		return now, api.Errorf(api.CodeUnavailable, "request %s is not done yet: %s",
			made.ID, api.WithoutCode(explain.StuckAt(now.Payload))).
			Fix("the agent continues; to follow: bourse describe %s; to end it: bourse release %[1]s", name)
	}
	return now, err
}

// describeSteps returns what follow prints of a request, in order: its steps, its state and its change, each as
// the condition and a text.
func describeSteps(r client.RequestStatus) (all [][2]string) {
	for _, of := range explain.Steps {
		all = append(all, [2]string{of, explain.Step(meta.FindStatusCondition(r.Payload.Steps, of))})
	}
	if s := r.Payload.Status; s.State != api.Rejected || s.Reservation == "" { // the error explains a rejection
		all = append(all, [2]string{"", s.Message})
	}
	if change := upToDate(r); change.Reason == api.Changing {
		all = append(all, [2]string{api.ConditionUpToDate, change.Message})
	}
	return all
}

func (sh *shell) showRequest(r client.RequestStatus) error {
	if sh.encodes() {
		return sh.encode(r)
	}
	_, err := fmt.Fprintln(sh.out, cmp.Or(r.Payload.Status.Reservation, r.ID))
	return err
}

// rejected returns the error for a request that no cluster can serve, with the explanation.
func (sh *shell) rejected(ctx context.Context, c *cluster.Client, id string, whole api.Resources) error {
	var decision *api.Decision
	if r, err := c.Reservation(ctx, id); err == nil {
		decision = r.Payload.Decision
	}
	e := explain.NoCandidate(ptr.Deref(decision, api.Decision{}), whole, fmt.Sprintf(" (reservation %s)", id)).
		Fix("its ResourceRequest stays; to remove it: bourse release %s", id)
	e.Decision = decision
	return e
}
