package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
)

// wish is a ResourceRequest, which flags set, and how to make it.
type wish struct {
	api.RequestCreate
	offload                    api.Offload
	reflect                    map[string]string
	via                        string
	timeout                    time.Duration
	dryRun, noWait             bool
	excludeUnknown, keepAsking bool
}

// useFlags adds the flags for the request itself, and for the use of the reservation in this cluster.
func (w *wish) useFlags(cmd *cobra.Command) {
	f, r := cmd.Flags(), &w.Request
	f.StringSliceVar(&w.offload.Namespaces, "offload", nil,
		"namespaces whose pods may run there: the request's own, or those with the label "+api.RequestsFromLabel)
	f.StringToStringVar(&w.reflect, "reflect", nil,
		"what Liqo copies to the provider besides pods: secrets, configMaps or services = All, AllowList or None (default "+
			"secrets=AllowList, the others All)")
	f.StringVar((*string)(&w.offload.Data), "data", "",
		"for offloaded namespaces with volumes at a provider: Stay (default: no other provider), or Move (the "+
			"volumes stay behind)")
	f.StringVar((*string)(&r.Network), "network", "",
		"wireguard: pods of both clusters reach each other through Liqo's network; none (default)")
	optionalDurationVar(f, &r.Wait, "wait",
		"how long to wait if no cluster can serve the request now, such as 2h (default: the request is Rejected at once)")
	f.Int32Var(&r.Priority, "priority", 0,
		"priority among waiting requests, -100 to 100; the highest is served first")
	f.StringVar(&w.Name, "name", "", "name of the ResourceRequest (default: generated)")
	f.StringVar(&w.Broker, "broker", "",
		"broker to ask, one of bourse brokers (default: the first that is enabled and answers)")
	f.BoolVar(&r.Confirm, "confirm", false,
		"only hold the capacity, until you confirm it (bourse confirm)")
	f.BoolVar(&w.dryRun, "dry-run", false, "decide and explain, but create nothing")
	w.waitFlags(f)
}

// amountFlags adds the flags for amounts.
func (w *wish) amountFlags(f *pflag.FlagSet) {
	r := &w.Request
	amountVar(f, &r.Resources, "cpu", "cpu", "CPUs, such as 4 or 500m")
	amountVar(f, &r.Resources, "memory", "memory", "memory, such as 8Gi")
	amountVar(f, &r.Resources, "gpu", "nvidia.com/gpu", "NVIDIA GPUs (nvidia.com/gpu)")
	amountsVar(f, &r.Resources, "resource", "any resource: NAME=AMOUNT, may be repeated")
}

// waitFlags adds the flags for how long to wait for an answer.
func (w *wish) waitFlags(f *pflag.FlagSet) {
	f.BoolVar(&w.noWait, "no-wait", false, "return as soon as the request is stored")
	durationVar(f, &w.timeout, "timeout", 6*time.Minute,
		"how long to wait until both clusters are bound, once a cluster can serve the request")
}

// offloading makes the Offload from the flags. It is nil if no namespace is named.
func (w *wish) offloading() (*api.Offload, error) {
	o := &w.offload
	if len(o.Namespaces) == 0 {
		flag := ""
		switch {
		case len(w.reflect) > 0:
			flag = "--reflect"
		case o.Data != "":
			flag = "--data"
		default:
			return nil, nil
		}
		return nil, api.Invalid(flag, "nothing is offloaded").Fix("name the namespaces: --offload NAMESPACE")
	}
	if o.Data != "" && o.Data != api.DataStay && o.Data != api.DataMove {
		return nil, api.Invalid("--data", "%.40q is not a policy", o.Data).Fix("use Stay or Move")
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
