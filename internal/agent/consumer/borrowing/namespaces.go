package borrowing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

// checkPodsEvery is how often it is checked whether a provider would accept the pods of a loan.
const checkPodsEvery = 15 * time.Second

// Offload offloads the namespaces that requests name, also those of requests that have no provider
// yet, and ends the offloading of all others of ours. Pods that are made from then on can run at
// providers that come later. One look serves all calls that wait for it.
func (b *Borrowing) Offload(ctx context.Context) error {
	return b.asks.do(func() error {
		all, err := b.loans(ctx)
		if err != nil {
			return err
		}
		_, err = b.offload(ctx, all, "")
		return err
	})
}

// offload does what Offload says, and returns the namespaces whose pods may run at a provider.
func (b *Borrowing) offload(ctx context.Context, all []bound, provider string) (namespaces []string, err error) {
	b.offloading.Lock()
	defer b.offloading.Unlock()
	uses, err := b.uses(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		slices.Sort(u.Providers)
		lasts, err := b.namespaces.Ensure(ctx, *u)
		if lasts && slices.Contains(u.Providers, provider) {
			namespaces = append(namespaces, u.Namespace)
		}
		if err == nil {
			continue
		}
		reason := "Failed" // one namespace that fails holds up no other: the next look tries again
		switch code := api.CodeOf(err); code {
		case api.CodeConflict:
			reason = "NamespaceOffloadingForeign"
		case api.CodeInvalid:
			reason = string(code)
		}
		naming := slices.DeleteFunc(slices.Clone(all), func(l bound) bool {
			return l.offload() == nil || !slices.Contains(l.offload().Namespaces, u.Namespace)
		})
		shown := condition(api.ConditionOffloaded, false, reason, err.Error())
		if err := b.showCondition(ctx, naming, offloadPart, shown); err != nil {
			return nil, err
		}
	}
	slices.Sort(namespaces)
	return namespaces, nil
}

// uses returns what becomes of each namespace that is ours or that a request names.
func (b *Borrowing) uses(ctx context.Context, all []bound) (map[string]*offload.Use, error) {
	uses := map[string]*offload.Use{}
	names, err := b.namespaces.ListOurs(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		uses[name] = &offload.Use{Namespace: name}
	}
	request := func(l bound, name string) *offload.Use {
		if uses[name] == nil {
			uses[name] = &offload.Use{Namespace: name}
		}
		u := uses[name]
		u.Requested, u.Strategy = true, offload.MostLocal(u.Strategy, l.offload().Strategy)
		return u
	}
	waiting, err := b.waiting(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range waiting {
		for _, name := range l.namespaces() {
			if b.checkAllowed(ctx, name, l) == nil { // requests shows why not
				request(l, name)
			}
		}
	}
	for _, l := range all {
		o := l.offload()
		if o == nil {
			continue
		}
		for _, name := range o.Namespaces {
			if err := b.checkAllowed(ctx, name, l); err != nil {
				if code := api.CodeOf(err); code != api.CodeForbidden && code != api.CodeNotFound {
					return nil, err // not known: nothing may leave because of it
				}
				shown := condition(api.ConditionOffloaded, false, string(api.CodeOf(err)), err.Error())
				if err := b.showCondition(ctx, []bound{l}, offloadPart, shown); err != nil {
					return nil, err
				}
				continue
			}
			if u := request(l, name); !slices.Contains(u.Providers, l.Provider) {
				u.Providers = append(u.Providers, l.Provider)
			}
		}
	}
	return uses, b.useForCustomers(ctx, all, uses)
}

// Unoffloads returns the namespaces that are no longer offloaded to the provider of a reservation
// once it has ended, at a time: Liqo then deletes their twins there, with all volumes. A namespace
// that another reservation with this provider names, and that ends later, stays.
func (b *Borrowing) Unoffloads(ctx context.Context, ending *market.Reservation, at market.Time) ([]string, error) {
	all, err := b.loans(ctx)
	if err != nil {
		return nil, err
	}
	var leave, stay []string
	for _, l := range all {
		o := l.offload()
		switch {
		case o == nil || l.Provider != ending.Provider:
		case l.ID == ending.ID:
			leave = o.Namespaces
		case l.EndsAt() > at:
			for _, name := range o.Namespaces {
				if b.checkAllowed(ctx, name, l) == nil {
					stay = append(stay, name)
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(leave), func(name string) bool { return slices.Contains(stay, name) }), nil
}

// waiting returns the requests that offload namespaces and do not end, and the VirtualNodePools, as
// loans without a reservation.
func (b *Borrowing) waiting(ctx context.Context) (out []bound, err error) {
	pools, err := b.pools(ctx)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		out = append(out, bound{request: &api.ResourceRequest{}, pool: pool})
	}
	var list api.ResourceRequestList
	err = b.options.Client.List(ctx, &list)
	for i := range list.Items {
		r := &list.Items[i]
		ends := r.Status.State == api.Releasing || r.Status.State != "" && r.Status.State.Over()
		if r.Spec.Offload != nil && r.DeletionTimestamp == nil && !ends {
			out = append(out, bound{request: r})
		}
	}
	return out, err
}

// awaitNamespaces shows for each loan whether the namespaces that its request names are mapped at
// the provider. It returns what it waits for.
func (b *Borrowing) awaitNamespaces(ctx context.Context, loans []bound) (waits string, err error) {
	for _, l := range loans {
		o := l.offload()
		if o == nil {
			continue
		}
		held, err := b.showFull(ctx, l, o.Namespaces)
		if err == nil && held == "" {
			held, err = b.showExposed(ctx, l, o.Namespaces)
		}
		if err != nil {
			return "", err
		}
		if held != "" {
			waits = cmp.Or(waits, held)
			continue
		}
		unready, err := b.findUnready(ctx, l.Provider, o.Namespaces)
		if err != nil {
			return "", err
		}
		if unready != "" { // the other loans may be ready
			waits = cmp.Or(waits, unready)
			continue
		}
		others, err := b.namespaces.OtherStrategy(ctx, o.Namespaces, o.Strategy)
		if err != nil {
			return "", err
		}
		shown := condition(api.ConditionOffloaded, true, "Offloaded", "offloaded: "+strings.Join(o.Namespaces, ", ")+others)
		if err := b.showCondition(ctx, []bound{l}, offloadPart, shown); err != nil {
			return "", err
		}
		if err := b.checkUse(ctx, l); err != nil {
			return "", err
		}
	}
	return waits, nil
}

// findUnready returns why the first namespace that is not mapped at a provider is not, empty if all are.
func (b *Borrowing) findUnready(ctx context.Context, provider string, namespaces []string) (waits string, err error) {
	for _, name := range namespaces {
		if ready, message, err := b.namespaces.Ready(ctx, name, provider); err != nil || !ready {
			return message, err
		}
	}
	return "", nil
}

// checkUse names the pods that wait because no provider would accept them, and the objects that do
// not reach the provider of a loan. It looks every checkPodsEvery.
func (b *Borrowing) checkUse(ctx context.Context, l bound) error {
	s := b.state(l.Provider)
	if b.clock.Since(s.checked[l.ID]) < checkPodsEvery {
		return nil
	}
	s.checked[l.ID] = b.clock.Now()
	var wrong, fails, leftOut []string
	for _, name := range l.offload().Namespaces {
		more, err := offload.FindRefusedPods(ctx, b.options.Reader, name)
		if err != nil {
			return err
		}
		wrong = append(wrong, more...)
		failed, off, err := offload.NotReflected(ctx, b.options.Reader, name, l.Provider, b.clock.Now())
		if err != nil {
			return err
		}
		fails, leftOut = append(fails, failed...), append(leftOut, off...)
	}
	comply := condition(api.ConditionPodsComply, true, "PodsComply", "")
	if len(wrong) > 0 {
		comply = condition(api.ConditionPodsComply, false, "WouldBeRefused", "no provider takes: "+firstFew(wrong))
	}
	if message := b.showUsedUp(l, l.offload().Namespaces); message != "" && comply.Status == metav1.ConditionTrue {
		comply = condition(api.ConditionPodsComply, false, usedUp, message)
	}
	reflected := reflectedCondition(s.reflection, l, fails, leftOut)
	return b.show(ctx, []bound{l}, podsPart, func(bound) api.InstructionStatus {
		return api.InstructionStatus{Conditions: []metav1.Condition{comply, reflected}}
	})
}

// firstFew joins the first five of a list, and says how many more there are.
func firstFew(all []string) string {
	if more := len(all) - 5; more > 0 {
		all = append(all[:5:5], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}
