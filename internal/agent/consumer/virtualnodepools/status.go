package virtualnodepools

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// show writes the status of a pool, and an Event for each condition that becomes true or false.
func (c *Controller) show(ctx context.Context, pool *api.VirtualNodePool, all *children, plan *vnp.Plan) error {
	s := c.status(pool, all, plan)
	observed(pool.Name, &s)
	return c.write(ctx, pool, s)
}

// status returns what a pool shows of a plan.
func (c *Controller) status(pool *api.VirtualNodePool, all *children, plan *vnp.Plan) api.VirtualNodePoolStatus {
	s := api.VirtualNodePoolStatus{
		Conditions: slices.Clone(pool.Status.Conditions),
		Demand:     plan.Demand.Resources(),
		Pending:    api.PendingPods{Counted: int32(plan.Counted), Not: plan.Not[:min(len(plan.Not), 8)]},
		Why:        plan.Message, InUse: int32(len(all.seen.Providers)),
	}
	var used amounts.List
	cost, reserved := int64(0), plan.Reserved
	for _, provider := range plan.Providers {
		used, cost = used.Plus(plan.Used[provider.Node]), cost+provider.Cost
		s.Providers = append(s.Providers, shownProvider(pool, all, &provider, plan.Used[provider.Node]))
	}
	for _, r := range all.ending {
		if slices.ContainsFunc(s.Providers, func(p api.PoolProvider) bool { return p.Name == r.Provider }) {
			continue // another reservation there took its place
		}
		hourly, _ := r.Hourly()
		cost, reserved = cost+hourly, reserved.Plus(r.Size)
		s.Providers = append(s.Providers, shownEnding(pool, r))
	}
	slices.SortFunc(s.Providers, func(a, b api.PoolProvider) int { return strings.Compare(a.Name, b.Name) })
	s.Used, s.Reserved, s.Cost = used.Resources(), reserved.Resources(), costText(pool, cost)
	most, _ := amounts.ParseCapacity("max", pool.Spec.Max)
	s.CPU, s.Memory = shares("cpu", used, reserved, most), shares("memory", used, reserved, most)
	set := func(kind string, holds bool, yes, no, message string) {
		condition := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: no,
			ObservedGeneration: pool.Generation}
		if holds {
			condition.Status, condition.Reason = metav1.ConditionTrue, yes
		}
		condition.Message = cmp.Or(message, quiet[condition.Reason])
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	notOffloaded, why := all.notOffloaded(), plan.Limited
	held := strings.Join(notOffloaded, "; ")
	if held != "" {
		why, s.Why = cmp.Or(why, "NotOffloaded"), strings.TrimPrefix(plan.Message+"; "+held, "; ")
	}
	suspended, faults := all.showFaults(&s.Conditions, notOffloaded, set)
	parts := append([]string{s.Why}, faults...)
	parts = append(parts, unservedText(s.Pending))
	s.Why = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
	why = cmp.Or(why, suspended)
	if len(all.taken) > 0 {
		why = cmp.Or(why, api.ConditionNamespaceTaken)
	}
	met := why == "" && plan.Reserved.Fits(plan.Demand)
	late, keep, full := plan.NotExtended, plan.VolumesKeep, all.full()
	set(api.ConditionReady, met, "DemandMet", cmp.Or(why, growing), s.Why)
	set(api.ConditionLimited, plan.Limited != "", plan.Limited, "NotLimited", plan.Message)
	set(api.ConditionExtended, len(late) == 0, "Extended", "NotExtended", list("not extended yet: ", late))
	drift, differs := driftText(pool, plan), "OtherTemplate"
	if slices.ContainsFunc(plan.Providers, func(provider vnp.Provider) bool { return provider.Disabled }) {
		differs = api.PoolProviderDisabled
	}
	set(api.ConditionDrifted, drift != "", differs, "AsTheTemplate", drift)
	set(api.ConditionAllNotReady, plan.AllNotReady, "CutOff", "SomeReady", "")
	set(api.ConditionVolumesKeep, len(keep) > 0, "Volumes", "NoVolumes", c.volumesText(pool, all, keep))
	set(api.ConditionNamespaceTaken, len(all.taken) > 0, "Taken", "NotTaken",
		list("another VirtualNodePool, which is older, has: ", all.taken))
	set(api.ConditionNamespacesFull, len(full) > 0, "Full", "NotFull", strings.Join(full, "; "))
	set(api.ConditionOffloaded, held == "", "Offloaded", "NotOffloaded", held)
	return s
}

// unservedText says how many pods wait that a pool cannot serve, and why most of them. It is empty if none does.
func unservedText(pending api.PendingPods) string {
	count, most := pending.Unserved()
	if count == 0 {
		return ""
	}
	wait := "wait"
	if count == 1 {
		wait = "waits"
	}
	return fmt.Sprintf("%s %s that it cannot serve, such as %s: %s", explain.Count(int(count), "pod"), wait, most.Example, most.Message)
}

// driftText names the providers that a pool would not choose now, and says when they leave.
func driftText(pool *api.VirtualNodePool, plan *vnp.Plan) string {
	texts := []string{}
	if len(plan.Drifted) > 0 {
		texts = append(texts, list("the template was edited since, or is no longer met: ", plan.Drifted))
	}
	for _, provider := range plan.Providers {
		leaves := provider.Until.Add(-api.DurationOf(pool.Spec.Template.Duration) / 2)
		when := "leaves at " + leaves.UTC().Format(time.RFC3339)
		switch {
		case !provider.Disabled:
			continue
		case provider.State == vnp.Leaving:
			when = "leaves now"
		case pool.Spec.Replace == api.ReplaceNever:
			when = "stays, because spec.replace is Never"
		case provider.Until.IsZero():
			when = "leaves once half of its time is over"
		}
		texts = append(texts, fmt.Sprintf("%s is disabled at the broker and %s; at once: bourse vnp disable %s %[1]s",
			provider.Name, when, pool.Name))
	}
	return strings.Join(texts, "; ")
}

// shownProvider returns what a pool shows of a provider.
func shownProvider(pool *api.VirtualNodePool, all *children, provider *vnp.Provider,
	used amounts.List) api.PoolProvider {
	request, price := all.requests[provider.Name], ""
	if bought := request.record.Bought(); bought != nil {
		price = bought.Price.Text()
	}
	return api.PoolProvider{
		Name: provider.Name, Node: provider.Node, Request: request.Name, State: string(provider.State),
		Reserved: provider.Reserved.Resources(), Used: used.Resources(), Cost: costText(pool, provider.Cost), Price: price,
		Uptime: all.uptime[provider.Name], Until: metav1.NewTime(provider.Until), Volumes: provider.Claims,
		VolumesDigest: all.words[provider.Name],
	}
}

// shownEnding returns what a pool shows of a reservation that no longer serves it.
func shownEnding(pool *api.VirtualNodePool, r *market.Reservation) api.PoolProvider {
	hourly, _ := r.Hourly()
	return api.PoolProvider{
		Name: r.Provider, Node: r.Slice(), Request: r.Object.Name, State: string(vnp.Leaving),
		Reserved: r.Size.Resources(), Cost: costText(pool, hourly), Until: metav1.NewTime(r.EndsAt().Go()),
	}
}

// volumesText names the volumes that keep providers, and says how to give them up.
func (c *Controller) volumesText(pool *api.VirtualNodePool, all *children, keep []string) string {
	if len(keep) == 0 {
		return ""
	}
	var claims, words []string
	for _, provider := range all.seen.Providers {
		if slices.Contains(keep, provider.Name) {
			claims, words = append(claims, provider.Claims...), append(words, all.words[provider.Name])
		}
	}
	return fmt.Sprintf("%s stays, because its end would delete %s: copy the data and delete the claims, "+
		"or give the data up: kubectl annotate --overwrite vnp %s %s=%s",
		strings.Join(keep, ", "), strings.Join(claims[:min(len(claims), 20)], ", "), pool.Name,
		api.VolumesMayDie, strings.Join(words, ","))
}

// write stores a status that changed, with its Events.
func (c *Controller) write(ctx context.Context, pool *api.VirtualNodePool, s api.VirtualNodePoolStatus) error {
	if !kubeobject.Differs(pool.Status, &s) {
		return nil
	}
	before := pool.Status.Conditions
	pool.Status = s
	if err := kubeobject.SoleStatus(c.options.Client).Apply(ctx, pool); err != nil {
		return kubeobject.Error(err)
	}
	c.showEvents(pool, before)
	return nil
}

// showInvalid shows why a spec cannot be.
func (c *Controller) showInvalid(ctx context.Context, pool *api.VirtualNodePool, cause error) error {
	s := *pool.Status.DeepCopy()
	s.Why = cause.Error()
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse,
		Reason: string(api.CodeOf(cause)), Message: cause.Error(), ObservedGeneration: pool.Generation})
	return c.write(ctx, pool, s)
}

// showDraining shows what the deletion of a pool waits for.
func (c *Controller) showDraining(ctx context.Context, pool *api.VirtualNodePool, all *children) error {
	var keep []string
	for _, provider := range all.seen.Providers {
		if len(provider.Claims) > 0 && !provider.GivenUp {
			keep = append(keep, provider.Name)
		}
	}
	s := *pool.Status.DeepCopy()
	s.Why = fmt.Sprintf("it is being deleted: %d reservations end", len(all.requests))
	s.Providers = nil
	for _, provider := range all.seen.Providers {
		provider.State = vnp.Leaving
		s.Providers = append(s.Providers, shownProvider(pool, all, &provider, nil))
	}
	slices.SortFunc(s.Providers, func(a, b api.PoolProvider) int { return strings.Compare(a.Name, b.Name) })
	if volumes := s.Volumes(); volumes != nil && len(keep) > 0 {
		s.Why = fmt.Sprintf("its deletion waits, because it would delete %s: copy the data and delete the claims, "+
			"or give the data up: bourse vnp stop %s --volumes-die %s", volumes, pool.Name, volumes.Digest)
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse,
		Reason: "Deleting", Message: s.Why, ObservedGeneration: pool.Generation})
	return c.write(ctx, pool, s)
}

// shares returns "used/reserved/max" of a resource, empty if max does not name it.
func shares(resource string, of ...amounts.List) string {
	if of[len(of)-1].Of(resource) == 0 {
		return ""
	}
	var texts []string
	for _, a := range of {
		q := amounts.Amount{Resource: resource, Value: a.Of(resource)}.Quantity()
		texts = append(texts, q.String())
	}
	return strings.Join(texts, "/")
}

// costText returns an amount for an hour as users read it, empty for 0.
func costText(pool *api.VirtualNodePool, nanos int64) string {
	if nanos == 0 || pool.Spec.MaxPrice == nil {
		return ""
	}
	code := pool.Spec.MaxPrice.Currency
	return money.Text(big.NewRat(nanos, 1_000_000_000), code) + " " + code + "/h"
}

func list(before string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return before + strings.Join(names, ", ")
}

// isOver reports whether the reservation of a request ends or ended, or was never made.
func (c *child) isOver() bool {
	state := c.Status.State
	if c.record != nil {
		state = c.record.State
	}
	return state != "" && (state.Over() || state == api.Releasing)
}
