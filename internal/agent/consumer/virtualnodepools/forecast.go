package virtualnodepools

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// States of a provider in a forecast, besides those of package vnp.
const (
	planned vnp.State = "Planned" // a new reservation
	larger  vnp.State = "Larger"  // a reservation that grows
)

// Forecast says what VirtualNodePools would do. It writes nothing, and needs no Liqo.
type Forecast struct{ keeper Controller }

// NewForecast returns a Forecast. It uses Client, Reader, Market, Namespace, Brokers and Clock. Without
// Liqo, no claim has its volume at a provider, and the agent may not read claims.
func NewForecast(o Options, liqo bool) *Forecast {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Pods = unwatched{o.Reader, liqo}
	return &Forecast{Controller{options: o}}
}

// unwatched reads pods, and with Liqo claims, from the API server.
type unwatched struct {
	client.Reader
	liqo bool
}

// In implements [Namespaces].
func (u unwatched) In(context.Context, string, func()) (client.Reader, error) { return u, nil }

// List lists objects. Without Liqo, it finds no claims.
func (u unwatched) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, claims := list.(*corev1.PersistentVolumeClaimList); claims && !u.liqo {
		return nil
	}
	return u.Reader.List(ctx, list, o...)
}

// UsedOn implements [Namespaces]: what a hub's customers use changes no forecast.
func (u unwatched) UsedOn(string) api.Resources { return nil }

// Only implements [Namespaces].
func (u unwatched) Only(map[string]string) {}

// PlanPool returns the status that a VirtualNodePool would have if everything was reserved that it wants
// now. If no pool has that name, the pods count as if they were made after the pool. Errors: Invalid;
// Unavailable.
func (f *Forecast) PlanPool(ctx context.Context, pool *api.VirtualNodePool) (api.VirtualNodePoolStatus, error) {
	none, c := api.VirtualNodePoolStatus{}, &f.keeper
	if len(pool.Spec.Namespaces) == 0 {
		return none, api.Invalid("namespaces", "it is empty").Fix("name the namespaces whose pods may run elsewhere")
	}
	planner, err := vnp.New(&pool.Spec)
	if err != nil {
		return none, err
	}
	var known api.VirtualNodePool
	err = c.options.Client.Get(ctx, client.ObjectKeyFromObject(pool), &known)
	if client.IgnoreNotFound(err) != nil {
		return none, kubeobject.Error(err)
	}
	if err == nil {
		pool.ObjectMeta, pool.Status.Conditions = known.ObjectMeta, known.Status.Conditions
	}
	m := newMemory(pool, planner)
	all, err := c.observe(ctx, pool, m)
	if err != nil {
		return none, kubeobject.Error(err)
	}
	if known.UID == "" {
		for i, pod := range all.seen.Pods {
			all.seen.Pods[i] = tolerant(pod, all.seen.Node)
		}
	}
	states := map[string]vnp.State{} // of the providers that would get more
	for {
		plan, before := c.plan(ctx, pool, m, all), len(states)
		for _, step := range plan.Steps {
			if grows(step) {
				states[step.Provider] = larger
				if step.Verb == vnp.Create {
					states[step.Provider] = planned
				}
				f.applyStep(ctx, pool, all, step)
			}
		}
		if len(states) > before {
			continue
		}
		s := c.status(pool, all, plan)
		for i := range s.Providers {
			provider := &s.Providers[i]
			if state := states[provider.Name]; state != "" {
				provider.State = string(state)
			}
			if provider.Request == "" {
				provider.Node = ""
			}
		}
		return s, nil
	}
}

// tolerant returns a pod as Liqo's webhook makes it in an offloaded namespace.
func tolerant(pod *corev1.Pod, node *corev1.Node) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, taint := range node.Spec.Taints {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect})
	}
	return pod
}

// applyStep changes what was observed as if a step was done. The provider then gets no more: the broker
// does not know that it gave something.
func (f *Forecast) applyStep(ctx context.Context, pool *api.VirtualNodePool, all *children, step vnp.Step) {
	i := slices.IndexFunc(all.seen.Providers, func(p vnp.Provider) bool { return p.Name == step.Provider })
	if i < 0 {
		i = len(all.seen.Providers)
		all.seen.Providers = append(all.seen.Providers, vnp.Provider{
			Name: step.Provider, Node: string(planned) + "/" + step.Provider, State: vnp.Ready, Since: all.seen.Now,
		})
		all.requests[step.Provider] = &child{ResourceRequest: &api.ResourceRequest{}}
	}
	provider := &all.seen.Providers[i]
	provider.Reserved, provider.Cost = step.Size, f.cost(ctx, pool, step)
	all.seen.Avoid = append(all.seen.Avoid, step.Provider)
}

// cost asks what an hour of a step's reservation costs, in billionths of the currency's unit. It is
// 0 where nothing is bought.
func (f *Forecast) cost(ctx context.Context, pool *api.VirtualNodePool, step vnp.Step) int64 {
	r := f.keeper.request(pool)
	r.Target, r.Resources, r.MaxPrice = step.Provider, step.Size.Resources(), step.MaxPrice
	found, err := f.keeper.options.Brokers.FitAt(ctx, pool.Spec.Template.Broker, api.EvaluationCreate{Request: r})
	if err != nil || len(found.Clusters) == 0 || found.Clusters[0].Bought == nil {
		return 0
	}
	return hourly(found.Clusters[0].Bought.Cost, api.DurationOf(r.Duration))
}

// hourly returns what an hour costs, in billionths of the currency's unit, where so long costs a
// text such as "12.50 EUR".
func hourly(cost string, of time.Duration) int64 {
	amount, currency, _ := strings.Cut(cost, " ")
	price, err := money.Parse("cost", &api.Price{Amount: amount, Currency: currency, Period: api.PeriodHour})
	if err != nil || of < time.Second {
		return 0
	}
	all := price.Nanos(1, money.RatesFor(time.Unix(0, 0), time.Hour))
	return all / int64(of/time.Second) * int64(time.Hour/time.Second)
}
