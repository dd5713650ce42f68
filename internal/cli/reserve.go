package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/money"
)

// wish is what the flags of reserve say.
type wish struct {
	cpu, memory, gpu              string
	resources, properties         map[string]string
	reflect, podShape             map[string]string
	duration                      time.Duration
	pool, where, target, strategy string
	network, maxPrice, data       string
	exclude, prefer, offload      []string
	namespace, name, broker       string
	confirm, dryRun, noWait       bool
	timeout, wait                 time.Duration
	priority, split               int32
}

func (sh *shell) reserveCommand() *cobra.Command {
	w := &wish{}
	cmd := &cobra.Command{
		Use: "reserve", GroupID: "use", Short: "Reserve resources of another cluster",
		Long: "Reserve makes a ResourceRequest in your cluster and waits until both clusters are bound.\n" +
			"With --wait it waits in the broker's queue where no cluster can serve it now, by priority, then age; also after\n" +
			"this command was interrupted.\n" +
			"With --dry-run it says which clusters were considered, what eliminated each, the scores, the choice, and\n" +
			"which objects would be made; nothing is made.",
		Example: "  bourse reserve --cpu 4 --memory 8Gi --where 'region == \"eu\"' --for 1h\n" +
			"  bourse reserve --resource nvidia.com/gpu=2 --where '\"NVIDIA-A100\" in gpus' --dry-run\n" +
			"  bourse reserve --cpu 64 --wait 2h --priority 10\n" +
			"  bourse reserve --cpu 300 --split 3",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return sh.reserve(cmd.Context(), w) },
	}
	f := cmd.Flags()
	w.amountFlags(f)
	f.StringToStringVar(&w.podShape, "pod-shape", nil, "the largest pod that is to run there, such as cpu=4,memory=16Gi: some node must have that much free")
	f.DurationVar(&w.duration, "for", 0, "how long (default "+api.DefaultDuration+")")
	f.StringVar(&w.pool, "pool", "", "pool of the provider (default "+api.GeneralPool+")")
	f.StringVar(&w.where, "where", "", "CEL expression over the provider's properties, such as 'region == \"eu\" && uptime >= 0.99'")
	f.StringToStringVar(&w.properties, "property", nil, "label that the provider must have: NAME=VALUE, may be repeated")
	f.StringVar(&w.target, "target", "", "the only cluster considered")
	f.StringSliceVar(&w.exclude, "exclude", nil, "clusters not considered")
	f.StringSliceVar(&w.prefer, "prefer", nil, "clusters preferred, best first")
	f.StringVar(&w.strategy, "strategy", "", "balance (default), pack, reliable or, with --max-price, cheap")
	f.StringVar(&w.maxPrice, "max-price", "", "also buy, of those who lend by offers only: the most that all of it may cost, such as 3EUR/hour (default: what is lent alone)")
	f.Int32Var(&w.split, "split", 0, "on how many clusters at most, in equal parts, all or none (default: on one)")
	w.useFlags(f)
	_ = cmd.RegisterFlagCompletionFunc("target", sh.complete(clusterNames))
	_ = cmd.RegisterFlagCompletionFunc("exclude", sh.complete(clusterNames))
	_ = cmd.RegisterFlagCompletionFunc("prefer", sh.complete(clusterNames))
	return cmd
}

// useFlags are the flags that say what is done here with what is got, and how.
func (w *wish) useFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&w.offload, "offload", nil, "namespaces whose pods may run there: the request's own, or labelled "+api.RequestsFromLabel)
	f.StringToStringVar(&w.reflect, "reflect", nil, "what besides pods goes to the provider: secrets, configMaps or services = All, AllowList or None (default secrets=AllowList, the others All)")
	f.StringVar(&w.data, "data", "", "of offloaded namespaces that have volumes at a provider: Stay there (default), or Move without them")
	f.StringVar(&w.network, "network", "", "wireguard: pods here and there reach each other through Liqo's network; none (default)")
	f.DurationVar(&w.wait, "wait", 0, "how long to wait where no cluster can serve it now, such as 2h (default: it is Rejected at once)")
	f.Int32Var(&w.priority, "priority", 0, "of those that wait the higher ones are served first: -100 to 100")
	f.StringVarP(&w.namespace, "namespace", "n", "default", "namespace of the ResourceRequest")
	f.StringVar(&w.name, "name", "", "name of the ResourceRequest (default: made up)")
	f.StringVar(&w.broker, "broker", "", "which broker is asked, of bourse brokers (default: the first that is enabled and reached)")
	f.BoolVar(&w.confirm, "confirm", false, "hold only, until `bourse confirm`")
	f.BoolVar(&w.dryRun, "dry-run", false, "decide and explain, make nothing")
	w.waitFlags(f)
}

// amountFlags are the flags that name amounts.
func (w *wish) amountFlags(f *pflag.FlagSet) {
	f.StringVar(&w.cpu, "cpu", "", "CPUs, such as 4 or 500m")
	f.StringVar(&w.memory, "memory", "", "memory, such as 8Gi")
	f.StringVar(&w.gpu, "gpu", "", "NVIDIA GPUs (nvidia.com/gpu)")
	f.StringToStringVar(&w.resources, "resource", nil, "any resource: NAME=AMOUNT, may be repeated")
}

// waitFlags are the flags that say how long to wait for an answer.
func (w *wish) waitFlags(f *pflag.FlagSet) {
	f.BoolVar(&w.noWait, "no-wait", false, "return once the request is made")
	f.DurationVar(&w.timeout, "timeout", 6*time.Minute, "how long to wait until both clusters are bound, once one can serve it")
}

// request puts the flags into a request. Errors: Invalid with the flag.
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
	if r.MaxPrice, err = ceiling(w.maxPrice); err != nil {
		return r, err
	}
	if r.PodShape, err = amounts("--pod-shape", w.podShape); err != nil {
		return r, err
	}
	if len(r.Resources) == 0 {
		return r, api.Invalid("--cpu", "nothing is asked for").Fix("ask for something: --cpu 4 --memory 8Gi")
	}
	return r, nil
}

// queue puts into a request what the flags say of waiting.
func (w *wish) queue(r *api.Request) {
	if r.Priority = w.priority; w.wait != 0 {
		r.Wait = &metav1.Duration{Duration: w.wait}
	}
}

// ceiling reads what --max-price says; nil if nothing. Errors: Invalid with the flag.
func ceiling(text string) (*api.Price, error) {
	if text == "" {
		return nil, nil
	}
	return money.Read("--max-price", text)
}

// amounts reads what a flag says of resources by name; nil if nothing. Errors: Invalid with the flag.
func amounts(flag string, texts map[string]string) (api.Resources, error) {
	var out api.Resources
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		q, err := resource.ParseQuantity(texts[name])
		if err != nil || q.Sign() < 0 {
			return nil, api.Invalid(flag, "%s=%q is not an amount", name, texts[name]).Fix("write amounts as Kubernetes does: 4, 500m, 8Gi")
		}
		if out == nil {
			out = api.Resources{}
		}
		out[resourceName(name)] = q
	}
	return out, nil
}

// into writes the amounts that the flags say. Errors: Invalid with the flag.
func (w *wish) into(all api.Resources) error {
	for _, ask := range w.amounts() {
		q, err := resource.ParseQuantity(ask.amount)
		if err != nil || q.Sign() < 0 {
			return api.Invalid(ask.flag, "%q is not an amount", ask.amount).Fix("write amounts as Kubernetes does: 4, 500m, 8Gi")
		}
		all[resourceName(ask.resource)] = q
	}
	return nil
}

// offloading is what the flags say of namespaces; nil if nothing.
func (w *wish) offloading() (*api.Offload, error) {
	if len(w.offload) == 0 {
		if len(w.reflect) > 0 {
			return nil, api.Invalid("--reflect", "nothing is offloaded").Fix("name the namespaces: --offload NAMESPACE")
		}
		return nil, nil
	}
	o := &api.Offload{Namespaces: w.offload, Data: api.DataPolicy(w.data)}
	if o.Data != "" && o.Data != api.DataStay && o.Data != api.DataMove {
		return nil, api.Invalid("--data", "%.40q is not known", w.data).Fix("say Stay or Move")
	}
	for kind, policy := range w.reflect {
		if o.Reflect == nil {
			o.Reflect = &api.Reflect{}
		}
		to, known := map[string]*api.ReflectPolicy{"secrets": &o.Reflect.Secrets, "configMaps": &o.Reflect.ConfigMaps, "services": &o.Reflect.Services}[kind]
		if !known || !slices.Contains([]api.ReflectPolicy{api.ReflectAll, api.ReflectAllowList, api.ReflectNone}, api.ReflectPolicy(policy)) {
			return nil, api.Invalid("--reflect", "%s=%s is not known", kind, policy).Fix("say secrets, configMaps or services = All, AllowList or None")
		}
		*to = api.ReflectPolicy(policy)
	}
	return o, nil
}

// asked is what one flag asks of one resource.
type asked struct{ flag, resource, amount string }

func (w *wish) amounts() (out []asked) {
	for _, a := range []asked{{"--cpu", "cpu", w.cpu}, {"--memory", "memory", w.memory}, {"--gpu", "nvidia.com/gpu", w.gpu}} {
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

// place makes the ResourceRequest of a request, and waits for what becomes of it.
func (sh *shell) place(ctx context.Context, c *client.Client, w *wish, r api.Request) error {
	offload, err := w.offloading()
	if err != nil {
		return err
	}
	create := api.RequestCreate{Namespace: w.namespace, Name: w.name, Request: r, Offload: offload, Broker: w.broker}
	e, err := c.DryRun(ctx, create)
	switch {
	case err == nil && w.dryRun:
		return sh.dryRun(ctx, c, w, r, e)
	case w.dryRun, hopeless(api.CodeOf(err)): // nothing is made that can never be answered; a broker that is away now may answer later
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
	case s.State == api.Rejected:
		return sh.rejected(ctx, c, s.Reservation)
	case s.State.Over():
		return api.Errorf(api.CodeInsufficient, "%s: %s", s.Reservation, s.Message).Fix("see: bourse why %s", s.Reservation)
	default:
		return sh.showRequest(done)
	}
}

// hopeless says that no later moment makes a request valid.
func hopeless(code api.Code) bool { return code == api.CodeInvalid || code == api.CodeTooLarge }

// done says whether there is nothing more to wait for: it is bound, or Active where it is to be used, or over, or
// waits for a person, here or at the provider.
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

// follow tells of each step of a request until there is nothing more to wait for.
func (sh *shell) follow(ctx context.Context, c *client.Client, made client.RequestStatus, done func(client.RequestStatus) bool) (client.RequestStatus, error) {
	namespace, name, _ := strings.Cut(made.ID, "/")
	said, told := "", map[string]string{}
	tell := func(of, now string) {
		if now == "" || told[of] == now {
			return
		}
		said, told[of] = now, now
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
			return now, api.Errorf(api.CodeUnavailable, "request %s is not done yet: %s", made.ID, said).
				Fix("it goes on by itself; see: kubectl -n %s get resourcerequest %s", namespace, name)
		}
	}
}

// steps are those in which what is reserved comes to be used.
var steps = []string{api.ConditionPeered, api.ConditionGranted, api.ConditionNodeReady, api.ConditionOffloaded}

// step is what there is to say of one; nothing where nothing is known.
func step(c *metav1.Condition) string {
	switch {
	case c == nil:
		return ""
	case c.Status == metav1.ConditionTrue:
		return c.Type
	}
	return fmt.Sprintf("%s: not yet (%s): %s", c.Type, c.Reason, c.Message)
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

// rejected makes the error of a request that no cluster can serve, with the explanation.
func (sh *shell) rejected(ctx context.Context, c *client.Client, id string) error {
	e := api.Errorf(api.CodeNoCandidate, "no cluster can serve it (reservation %s)", id)
	if r, err := c.Reservation(ctx, id); err == nil {
		e.Decision = r.Payload.Decision
	}
	return e
}
