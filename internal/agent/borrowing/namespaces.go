package borrowing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// checkPodsEvery is how often it is checked whether a provider would accept the pods of a loan.
const checkPodsEvery = 15 * time.Second

// offload lets each namespace that a request may name use the providers of its loans, and takes all others of
// ours back.
func (b *Borrowing) offload(ctx context.Context, all []loan) error {
	b.offloading.Lock()
	defer b.offloading.Unlock()
	uses, err := b.uses(ctx, all)
	if err != nil {
		return err
	}
	for _, u := range uses {
		slices.Sort(u.Providers)
		err := b.namespaces.Ensure(ctx, *u)
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
		naming := slices.DeleteFunc(slices.Clone(all), func(l loan) bool {
			return l.offload() == nil || !slices.Contains(l.offload().Namespaces, u.Namespace)
		})
		shown := condition(api.ConditionOffloaded, false, reason, err.Error())
		if err := b.showCondition(ctx, naming, offloadPart, shown); err != nil {
			return err
		}
	}
	return nil
}

// uses returns what becomes of each namespace that is ours or that a loan names.
func (b *Borrowing) uses(ctx context.Context, all []loan) (map[string]*offload.Use, error) {
	uses := map[string]*offload.Use{}
	ours, err := b.namespaces.Ours(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range ours {
		uses[name] = &offload.Use{Namespace: name}
	}
	for _, l := range all {
		o := l.offload()
		if o == nil {
			continue
		}
		for _, name := range o.Namespaces {
			if err := b.checkAllowed(ctx, l, name); err != nil {
				shown := condition(api.ConditionOffloaded, false, string(api.CodeOf(err)), err.Error())
				if err := b.showCondition(ctx, []loan{l}, offloadPart, shown); err != nil {
					return nil, err
				}
				continue
			}
			if uses[name] == nil {
				uses[name] = &offload.Use{Namespace: name}
			}
			u := uses[name]
			u.Strategy = o.Strategy
			if !slices.Contains(u.Providers, l.Provider) {
				u.Providers = append(u.Providers, l.Provider)
			}
		}
	}
	return uses, nil
}

// checkAllowed returns why a request may not offload a namespace: it may offload its own, and one that its admin
// opened for it. Errors: Forbidden, NotFound.
func (b *Borrowing) checkAllowed(ctx context.Context, l loan, namespace string) error {
	if namespace == l.request.Namespace {
		return nil
	}
	var ns corev1.Namespace
	if err := b.options.Client.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return kubeobject.Error(err)
	}
	if ns.Labels[api.RequestsFromLabel] != l.request.Namespace {
		return api.Errorf(api.CodeForbidden,
			"namespace %s may not be offloaded by requests of %s", namespace, l.request.Namespace).
			Fix("label it: kubectl label namespace %s %s=%s", namespace, api.RequestsFromLabel, l.request.Namespace)
	}
	return nil
}

// awaitNamespaces shows whether the namespaces that requests name are mapped at the provider. It returns what it
// waits for.
func (b *Borrowing) awaitNamespaces(ctx context.Context, loans []loan) (waits string, err error) {
	for _, l := range loans {
		o := l.offload()
		if o == nil {
			continue
		}
		for _, name := range o.Namespaces {
			ready, message, err := b.namespaces.Ready(ctx, name, l.Provider)
			if err != nil {
				return "", err
			}
			if !ready {
				return message, nil
			}
		}
		shown := condition(api.ConditionOffloaded, true, "Offloaded", "offloaded: "+strings.Join(o.Namespaces, ", "))
		if err := b.showCondition(ctx, []loan{l}, offloadPart, shown); err != nil {
			return "", err
		}
		if err := b.checkPods(ctx, l, o.Namespaces); err != nil {
			return "", err
		}
	}
	return "", nil
}

// checkPods names the pods that wait because no provider would accept them. It looks every checkPodsEvery.
func (b *Borrowing) checkPods(ctx context.Context, l loan, namespaces []string) error {
	s := b.state(l.Provider)
	if b.options.Clock.Since(s.checked[l.ID]) < checkPodsEvery {
		return nil
	}
	s.checked[l.ID] = b.options.Clock.Now()
	var wrong []string
	for _, name := range namespaces {
		more, err := offload.Complaints(ctx, b.options.Reader, name)
		if err != nil {
			return err
		}
		wrong = append(wrong, more...)
	}
	if len(wrong) == 0 {
		return b.showCondition(ctx, []loan{l}, podsPart, condition(api.ConditionPodsComply, true, "PodsComply", ""))
	}
	if more := len(wrong) - 5; more > 0 {
		wrong = append(wrong[:5], fmt.Sprintf("and %d more", more))
	}
	return b.showCondition(ctx, []loan{l}, podsPart,
		condition(api.ConditionPodsComply, false, "WouldBeRefused", "no provider takes: "+strings.Join(wrong, "; ")))
}
