package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/money"
)

// wish holds the flags of reserve.
type wish struct {
	cpu, memory, gpu              string
	resources, properties         map[string]string
	reflect, podShape             map[string]string
	duration                      time.Duration
	pool, where, target, strategy string
	network, maxPrice, data       string
	exclude, prefer, offload      []string
	namespace, name, broker, via  string
	confirm, dryRun, noWait       bool
	excludeUnknown, keepAsking    bool
	timeout, wait                 time.Duration
	priority, split               int32
}

func (sh *shell) reserveCommand() *cobra.Command {
	w := &wish{}
	cmd := &cobra.Command{
		Use: "reserve", GroupID: "use", Short: "Reserve resources of another cluster",
		Long: "Reserve creates a ResourceRequest in your cluster and waits until both clusters are bound.\n" +
			"With --wait, a request that no cluster can serve now waits in the broker's queue, by priority, then age. It keeps\n" +
			"waiting when you interrupt this command.\n" +
			"With --dry-run it creates nothing. It prints the clusters considered, what eliminated each, the scores, the choice,\n" +
			"and the objects that it would create.",
		Example: "  bourse reserve --cpu 4 --memory 8Gi --where 'region == \"eu\"' --for 1h\n" +
			"  bourse reserve --resource nvidia.com/gpu=2 --where '\"NVIDIA-A100-SXM4-80GB\" in gpus' --dry-run\n" +
			"  bourse reserve --cpu 64 --wait 2h --priority 10\n" +
			"  bourse reserve --cpu 300 --split 3",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.reserve(cmd.Context(), w) },
	}
	f := cmd.Flags()
	w.amountFlags(f)
	f.StringToStringVar(&w.podShape, "pod-shape", nil,
		"largest pod that will run there, such as cpu=4,memory=16Gi; one node must have that much free")
	durationVar(f, &w.duration, "for", 0, "how long the reservation lasts (default "+api.DefaultDuration+")")
	f.StringVar(&w.pool, "pool", "", "pool of the provider (default "+api.GeneralPool+")")
	f.StringVar(&w.where, "where", "",
		"CEL expression over the provider's properties, such as 'region == \"eu\" && uptime >= 0.99'")
	f.StringToStringVar(&w.properties, "property", nil, "label that the provider must have: NAME=VALUE, may be repeated")
	f.StringVar(&w.target, "target", "", "the only provider to consider")
	f.StringSliceVar(&w.exclude, "exclude", nil, "providers not to consider")
	f.BoolVar(&w.excludeUnknown, "exclude-unknown", false, "accept names in --exclude that no visible cluster has")
	f.StringSliceVar(&w.prefer, "prefer", nil, "providers to prefer, best first")
	f.StringVar(&w.strategy, "strategy", "", "how to choose: balance (default), pack, reliable, or with --max-price cheap")
	f.StringVar(&w.maxPrice, "max-price", "",
		"also consider providers that lend only by offers, up to this price for all of it, such as 3EUR/hour (default: do not buy)")
	f.Int32Var(&w.split, "split", 0,
		"largest number of clusters, with equal parts; all parts are reserved or none (default: one cluster)")
	w.useFlags(cmd)
	fixed(cmd, "strategy", string(api.Balance), string(api.Pack), string(api.Reliable), string(api.Cheap))
	fixed(cmd, "pool", api.GeneralPool)
	_ = cmd.RegisterFlagCompletionFunc("target", sh.complete(sh.person, clusterNames))
	_ = cmd.RegisterFlagCompletionFunc("exclude", sh.complete(sh.person, clusterNames))
	_ = cmd.RegisterFlagCompletionFunc("prefer", sh.complete(sh.person, clusterNames))
	return cmd
}

// useFlags adds the flags for the request itself, and for the use of the reservation in this cluster.
func (w *wish) useFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&w.offload, "offload", nil,
		"namespaces whose pods may run there: the request's own, or those with the label "+api.RequestsFromLabel)
	f.StringToStringVar(&w.reflect, "reflect", nil,
		"what Liqo copies to the provider besides pods: secrets, configMaps or services = All, AllowList or None (default secrets=AllowList, the others All)")
	f.StringVar(&w.data, "data", "",
		"for offloaded namespaces with volumes at a provider: Stay (default: no other provider), or Move (the volumes stay behind)")
	f.StringVar(&w.network, "network", "",
		"wireguard: pods of both clusters reach each other through Liqo's network; none (default)")
	durationVar(f, &w.wait, "wait", 0,
		"how long to wait if no cluster can serve the request now, such as 2h (default: the request is Rejected at once)")
	f.Int32Var(&w.priority, "priority", 0, "priority among waiting requests, -100 to 100; the highest is served first")
	f.StringVarP(&w.namespace, "namespace", "n", "default", "namespace of the ResourceRequest")
	f.StringVar(&w.name, "name", "", "name of the ResourceRequest (default: generated)")
	f.StringVar(&w.broker, "broker", "",
		"broker to ask, one of bourse brokers (default: the first that is enabled and answers)")
	f.BoolVar(&w.confirm, "confirm", false, "only hold the capacity, until you confirm it (bourse confirm)")
	f.BoolVar(&w.dryRun, "dry-run", false, "decide and explain, but create nothing")
	fixed(cmd, "network", string(api.NetworkNone), string(api.NetworkWireGuard))
	fixed(cmd, "data", string(api.DataStay), string(api.DataMove))
	w.waitFlags(f)
}

// amountFlags adds the flags for amounts.
func (w *wish) amountFlags(f *pflag.FlagSet) {
	f.StringVar(&w.cpu, "cpu", "", "CPUs, such as 4 or 500m")
	f.StringVar(&w.memory, "memory", "", "memory, such as 8Gi")
	f.StringVar(&w.gpu, "gpu", "", "NVIDIA GPUs (nvidia.com/gpu)")
	f.StringToStringVar(&w.resources, "resource", nil, "any resource: NAME=AMOUNT, may be repeated")
}

// waitFlags adds the flags for how long to wait for an answer.
func (w *wish) waitFlags(f *pflag.FlagSet) {
	f.BoolVar(&w.noWait, "no-wait", false, "return as soon as the request is created")
	durationVar(f, &w.timeout, "timeout", 6*time.Minute,
		"how long to wait until both clusters are bound, once a cluster can serve the request")
}

// request makes a request from the flags. Errors: Invalid with the flag.
func (w *wish) request() (api.Request, error) {
	r := api.Request{
		Resources: api.Resources{}, Pool: w.pool, Where: w.where, Properties: w.properties, Target: w.target,
		Exclude: w.exclude, Prefer: w.prefer, Strategy: api.Strategy(w.strategy), Confirm: w.confirm,
		Network: api.NetworkMode(w.network), Split: w.split,
	}
	if w.duration != 0 {
		r.Duration = &metav1.Duration{Duration: w.duration}
	}
	w.queue(&r)
	if err := w.into(r.Resources); err != nil {
		return r, err
	}
	var err error
	if r.MaxPrice, err = readMaxPrice(w.maxPrice); err != nil {
		return r, err
	}
	if r.PodShape, err = amounts("--pod-shape", w.podShape); err != nil {
		return r, err
	}
	if len(r.Resources) == 0 {
		return r, api.Invalid("--cpu", "nothing is asked for").Fix("give an amount: --cpu 4 --memory 8Gi")
	}
	return r, nil
}

// queue sets how long a request waits, and its priority.
func (w *wish) queue(r *api.Request) {
	if r.Priority = w.priority; w.wait != 0 {
		r.Wait = &metav1.Duration{Duration: w.wait}
	}
}

// readMaxPrice reads --max-price. It is nil if the flag is empty. Errors: Invalid with the flag.
func readMaxPrice(text string) (*api.Price, error) {
	if text == "" {
		return nil, nil
	}
	return money.Read("--max-price", text)
}

// amounts reads the resources of a flag, by name. It is nil if there are none. Errors: Invalid with the flag.
func amounts(flag string, texts map[string]string) (api.Resources, error) {
	var out api.Resources
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		q, err := readAmount(flag, name, name+"=", texts[name])
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = api.Resources{}
		}
		out[resourceName(name)] = q
	}
	return out, nil
}

// readAmount reads the amount of one resource. Errors: Invalid with the flag, also for less than
// 1Mi of memory or storage: its unit is missing. label stands before the amount in the error.
func readAmount(flag, name, label, text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		e := api.Invalid(flag, "%s%q is not an amount", label, text)
		number := strings.TrimRightFunc(text, unicode.IsLetter)
		unit := strings.ToUpper(text[len(number):])
		if unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I"); len(unit) == 1 && strings.Contains("KMGTP", unit) {
			return q, e.Fix("write %s%si", number, unit)
		}
		return q, e.Fix("write amounts as Kubernetes does: 4, 500m, 8Gi")
	}
	inBytes := name == "memory" || name == "ephemeral-storage" || strings.HasSuffix(name, "storage")
	if inBytes && q.Sign() > 0 && q.Value() < 1<<20 {
		return q, api.Invalid(flag, "%s%q is %s bytes", label, text, q.String()).
			Fix("did you mean %sGi?", strings.TrimRightFunc(text, unicode.IsLetter))
	}
	return q, nil
}

// into adds the amounts of the flags to all. Errors: Invalid with the flag.
func (w *wish) into(all api.Resources) error {
	for _, ask := range w.amounts() {
		q, err := readAmount(ask.flag, ask.resource, "", ask.amount)
		if err != nil {
			return err
		}
		all[resourceName(ask.resource)] = q
	}
	return nil
}

// offloading makes the Offload from the flags. It is nil if no namespace is named.
func (w *wish) offloading() (*api.Offload, error) {
	if len(w.offload) == 0 {
		if len(w.reflect) > 0 {
			return nil, api.Invalid("--reflect", "nothing is offloaded").Fix("name the namespaces: --offload NAMESPACE")
		}
		return nil, nil
	}
	o := &api.Offload{Namespaces: w.offload, Data: api.DataPolicy(w.data)}
	if o.Data != "" && o.Data != api.DataStay && o.Data != api.DataMove {
		return nil, api.Invalid("--data", "%.40q is not a policy", w.data).Fix("use Stay or Move")
	}
	for kind, policy := range w.reflect {
		if o.Reflect == nil {
			o.Reflect = &api.Reflect{}
		}
		to, known := map[string]*api.ReflectPolicy{"secrets": &o.Reflect.Secrets,
			"configMaps": &o.Reflect.ConfigMaps, "services": &o.Reflect.Services}[kind]
		if !known || !slices.Contains([]api.ReflectPolicy{api.ReflectAll, api.ReflectAllowList, api.ReflectNone},
			api.ReflectPolicy(policy)) {
			return nil, api.Invalid("--reflect", "%s=%s is not a policy", kind, policy).
				Fix("use secrets, configMaps or services = All, AllowList or None")
		}
		*to = api.ReflectPolicy(policy)
	}
	return o, nil
}

// asked is the amount of one resource in one flag.
type asked struct{ flag, resource, amount string }

func (w *wish) amounts() (out []asked) {
	for _, a := range []asked{{"--cpu", "cpu", w.cpu}, {"--memory", "memory", w.memory},
		{"--gpu", "nvidia.com/gpu", w.gpu}} {
		if a.amount != "" {
			out = append(out, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.resources)) {
		out = append(out, asked{"--resource " + name, name, w.resources[name]})
	}
	return out
}

func (sh *shell) reserve(ctx context.Context, w *wish) error {
	r, err := w.request()
	if err != nil {
		return err
	}
	c, err := sh.person()
	if err != nil {
		return err
	}
	return sh.place(ctx, c, w, r)
}

// place creates the ResourceRequest of a request, and follows it.
func (sh *shell) place(ctx context.Context, c *client.Client, w *wish, r api.Request) error {
	offload, err := w.offloading()
	if err != nil {
		return err
	}
	for _, names := range []struct {
		flag string
		must bool
		all  []string
	}{{"--exclude", !w.excludeUnknown, w.exclude}, {"--prefer",
		false, w.prefer}, {"--target", false, []string{w.target}}} {
		if err := sh.checkClusters(ctx, c, names.flag, names.must, names.all...); err != nil {
			return err
		}
	}
	create := api.RequestCreate{Namespace: w.namespace, Name: w.name,
		Request: r, Offload: offload, Broker: w.broker, Via: vias[w.via]}
	e, err := c.DryRun(ctx, create)
	switch {
	case err == nil && w.dryRun:
		return sh.dryRun(ctx, c, w, r, e)
	// a request that can never be served is not created; a broker that is away may answer later
	case w.dryRun, hopeless(api.CodeOf(err)):
		return err
	}
	made, err := c.MakeRequest(ctx, create)
	if err != nil {
		return err
	}
	fmt.Fprintf(sh.progress, "ResourceRequest %s made\n", made.ID)
	if w.noWait {
		return sh.showRequest(made)
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout+w.wait)
	defer cancel()
	done, err := sh.follow(ctx, c, made, w.done)
	if err != nil {
		return err
	}
	switch s := done.Payload.Status; {
	case s.State == api.Rejected && s.Reservation != "":
		return sh.rejected(ctx, c, s.Reservation)
	case s.State.Over():
		return api.Errorf(api.CodeInsufficient, "request %s failed: %s", done.ID, s.Message).
			Fix("to remove it: bourse release %s", done.ID)
	default:
		return sh.showRequest(done)
	}
}

// hopeless reports whether a request can never become valid.
func hopeless(code api.Code) bool {
	return slices.Contains([]api.Code{api.CodeInvalid, api.CodeTooLarge, api.CodeNotFound, api.CodeForbidden}, code)
}

// done reports whether there is nothing more to wait for. The request is bound, or Active if it is
// to be used, or over. Or it waits for a user here or for an admin at the provider.
func (w *wish) done(r client.RequestStatus) bool {
	switch r.Payload.Status.State {
	case "", api.Pending:
		return false
	case api.Held:
		return w.confirm || meta.IsStatusConditionTrue(r.Payload.Status.Conditions, api.ConditionAwaitsApproval)
	case api.Reserved:
		return len(w.offload) == 0 && w.network != string(api.NetworkWireGuard)
	}
	if r.Payload.Status.State == api.Active && len(w.offload) > 0 && len(r.Payload.Steps) > 0 {
		return meta.IsStatusConditionTrue(r.Payload.Steps, api.ConditionOffloaded)
	}
	return r.Payload.Status.State != api.Releasing
}

// follow prints each step of a request until done.
func (sh *shell) follow(ctx context.Context, c *client.Client,
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
	now := made
	for {
		read, err := c.Request(ctx, namespace, name)
		if err != nil && ctx.Err() == nil {
			return read, err
		}
		if err == nil {
			now = read
			for _, of := range steps {
				tell(of, step(meta.FindStatusCondition(now.Payload.Steps, of)))
			}
			tell("", now.Payload.Status.Message)
			if done(now) {
				return now, nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return now, api.Errorf(api.CodeUnavailable, "request %s is not done yet: %s", made.ID, stuckAt(now)).
				Fix("the agent continues; to follow: bourse describe %s; to end it: bourse release %[1]s", name)
		}
	}
}

// steps are the conditions on the way from Reserved to running pods.
var steps = []string{api.ConditionPeered, api.ConditionGranted, api.ConditionNodeReady, api.ConditionOffloaded}

// stuckAt returns the step that a request has not reached, or its state.
func stuckAt(r client.RequestStatus) string {
	for _, of := range steps {
		if c := meta.FindStatusCondition(r.Payload.Steps, of); c != nil && c.Status != metav1.ConditionTrue {
			return step(c)
		}
	}
	return r.Payload.Status.Message
}

// step describes a step. It is empty if nothing is known.
func step(c *metav1.Condition) string {
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return c.Type
	}
	return fmt.Sprintf("%s: not yet: %s", c.Type, reasonText(c.Reason, c.Message))
}

func (sh *shell) showRequest(r client.RequestStatus) error {
	if sh.output == "json" || sh.output == "yaml" {
		return sh.encode(r)
	}
	id := r.Payload.Status.Reservation
	if id == "" {
		id = r.ID
	}
	_, err := fmt.Fprintln(sh.out, id)
	return err
}

// rejected returns the error for a request that no cluster can serve, with the explanation.
func (sh *shell) rejected(ctx context.Context, c *client.Client, id string) error {
	e := api.Errorf(api.CodeNoCandidate, "no cluster can serve the request (reservation %s)", id).
		Fix("its ResourceRequest stays; to remove it: bourse release %s", id)
	if r, err := c.Reservation(ctx, id); err == nil {
		e.Decision = r.Payload.Decision
	}
	return e
}
