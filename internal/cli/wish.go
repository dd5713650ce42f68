package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
)

// wish holds the flags of reserve.
type wish struct {
	resources, podShape           api.Resources
	properties, reflect           map[string]string
	maxPrice                      *api.Price
	duration                      time.Duration
	pool, where, target, strategy string
	aggregated, relend            bool
	network, data                 string
	exclude, prefer, offload      []string
	namespace, name, broker, via  string
	confirm, dryRun, noWait       bool
	excludeUnknown, keepAsking    bool
	timeout, wait                 time.Duration
	priority, split               int32
}

// useFlags adds the flags for the request itself, and for the use of the reservation in this cluster.
func (w *wish) useFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&w.offload, "offload", nil,
		"namespaces whose pods may run there: the request's own, or those with the label "+api.RequestsFromLabel)
	f.StringToStringVar(&w.reflect, "reflect", nil,
		"what Liqo copies to the provider besides pods: secrets, configMaps or services = All, AllowList or None (default "+
			"secrets=AllowList, the others All)")
	f.StringVar(&w.data, "data", "",
		"for offloaded namespaces with volumes at a provider: Stay (default: no other provider), or Move (the "+
			"volumes stay behind)")
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
	w.waitFlags(f)
}

// amountFlags adds the flags for amounts.
func (w *wish) amountFlags(f *pflag.FlagSet) {
	amountVar(f, &w.resources, "cpu", "cpu", "CPUs, such as 4 or 500m")
	amountVar(f, &w.resources, "memory", "memory", "memory, such as 8Gi")
	amountVar(f, &w.resources, "gpu", "nvidia.com/gpu", "NVIDIA GPUs (nvidia.com/gpu)")
	amountsVar(f, &w.resources, "resource", "any resource: NAME=AMOUNT, may be repeated")
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
		Resources: w.resources, PodShape: w.podShape, MaxPrice: w.maxPrice, Pool: w.pool, Where: w.where, Properties: w.properties, Target: w.target,
		Exclude: w.exclude, Prefer: w.prefer, Strategy: api.Strategy(w.strategy), Confirm: w.confirm,
		Aggregated: w.aggregated, Relend: w.relend, Priority: w.priority, Wait: durationOf(w.wait),
		Network: api.NetworkMode(w.network), Split: w.split, Duration: durationOf(w.duration),
	}
	if len(r.Resources) == 0 {
		return r, api.Invalid("--cpu", "nothing is asked for").Fix("give an amount: --cpu 4 --memory 8Gi")
	}
	return r, nil
}

// offloading makes the Offload from the flags. It is nil if no namespace is named.
func (w *wish) offloading() (*api.Offload, error) {
	if len(w.offload) == 0 {
		for flag, given := range map[string]bool{"--reflect": len(w.reflect) > 0, "--data": w.data != ""} {
			if given {
				return nil, api.Invalid(flag, "nothing is offloaded").Fix("name the namespaces: --offload NAMESPACE")
			}
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
