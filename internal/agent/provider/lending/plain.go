package lending

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/trust"
)

// controlPlain looks at all plain consumers when the SharingPolicy or a tenant namespace changes.
func (l *Lending) controlPlain(m ctrl.Manager) error {
	all := []reconcile.Request{{}}
	policy := mapTo(func(context.Context, client.Object) []reconcile.Request { return all })
	tenants := mapTo(func(_ context.Context, o client.Object) []reconcile.Request {
		if liqo.Peer(o) == "" || guard.Mapped(o) {
			return nil
		}
		return all
	})
	return ctrl.NewControllerManagedBy(m).Named("plainconsumer").
		Watches(&api.SharingPolicy{}, policy).Watches(&corev1.Namespace{}, tenants).
		Complete(reconcile.Func(l.guardAllPlain))
}

// guardAllPlain puts the plain consumers of the SharingPolicy under the admission policies. A consumer that the
// SharingPolicy no longer names stays there until its peering is gone.
func (l *Lending) guardAllPlain(ctx context.Context, _ ctrl.Request) (again ctrl.Result, err error) {
	listed, err := l.readGuarded(ctx)
	if err != nil {
		return again, kubeobject.Error(err)
	}
	named := map[string]bool{}
	for _, c := range l.options.Sharing().PlainConsumers() {
		named[c.Cluster] = true
	}
	for consumer := range named {
		if failed := l.guardPlain(ctx, consumer); api.CodeOf(failed) == api.CodeUnavailable { // the doctor says why
			again.RequeueAfter = liqo.GuardEvery
		} else {
			err = errors.Join(err, failed)
		}
	}
	for consumer := range listed {
		if !named[consumer] {
			err = errors.Join(err, l.unlistPlain(ctx, consumer))
		}
	}
	return again, kubeobject.Error(err)
}

// readGuarded returns the plain consumers that are under the policies, and notes them. It forgets the proofs of
// the others: one that comes back is proven again.
func (l *Lending) readGuarded(ctx context.Context) (map[string]bool, error) {
	listed, err := l.options.Policies.Plain(ctx)
	if err != nil {
		return nil, err
	}
	l.options.Usage.SetGuarded(listed)
	l.plain.Range(func(consumer, _ any) bool {
		if !listed[consumer.(string)] {
			l.plain.Delete(consumer)
		}
		return true
	})
	return listed, nil
}

// guardPlain puts one plain consumer under the policies as soon as they would refuse nothing that it has.
// Errors: Unavailable until then, and while the policies do not deny.
func (l *Lending) guardPlain(ctx context.Context, consumer string) error {
	before, _ := l.guards(consumer)
	if !before {
		if err := l.refuses(ctx, consumer); err != nil {
			return err
		}
		if err := l.prove(ctx, consumer).holds(); err != nil {
			return err
		}
	}
	if err := l.list(ctx, &state{}, consumer); err != nil || before {
		return err
	}
	if err := l.refuses(ctx, consumer); err != nil { // it came before the policies knew the consumer
		return errors.Join(err, l.options.Policies.UnlistPlain(ctx, consumer))
	}
	_, err := l.readGuarded(ctx)
	return err
}

// unlistPlain takes a consumer from the policies that has no peering here.
func (l *Lending) unlistPlain(ctx context.Context, consumer string) error {
	namespace, err := liqo.TenantNamespace(ctx, l.options.Client, consumer)
	if namespace != "" || api.CodeOf(err) == api.CodeUnavailable { // it is being deleted: an event follows
		return nil
	}
	if err == nil {
		err = l.options.Policies.UnlistPlain(ctx, consumer)
	}
	if err == nil {
		_, err = l.readGuarded(ctx)
	}
	return err
}

// guards reports whether a plain consumer is under the policies. If it is not, waits says whether it will be.
func (l *Lending) guards(consumer string) (guarded, waits bool) {
	guarded = l.options.Usage.IsGuarded(consumer)
	return guarded, !guarded && l.options.Sharing().NamesPlain(consumer)
}

// holds reports whether a plain consumer is under policies that deny. It proves that again after a minute.
func (l *Lending) holds(ctx context.Context, consumer string) bool {
	if !l.options.Usage.IsGuarded(consumer) {
		return false
	}
	last, _ := l.plain.Load(consumer)
	p, ok := last.(proof)
	if !ok || l.options.Clock.Since(p.begun) > proofLasts || p.holds() != nil {
		p = l.prove(ctx, consumer)
		if !l.options.Usage.IsGuarded(consumer) {
			return false
		}
		l.plain.Store(consumer, p)
	}
	return p.holds() == nil
}

// refused says what a plain consumer has here that the policies would refuse.
func (l *Lending) refused(ctx context.Context, consumer string) ([]string, error) {
	namespace, err := liqo.TenantNamespace(ctx, l.options.Client, consumer)
	if err != nil || namespace == "" {
		return nil, err
	}
	named, err := l.sliceNames(ctx, consumer)
	if err != nil {
		return nil, err
	}
	most := 0
	if s := l.options.Sharing(); s != nil && s.Namespaces != nil {
		most = int(s.Namespaces.Max)
	}
	return l.options.Policies.Refused(ctx, consumer, namespace, slices.Collect(maps.Keys(named)), most)
}

// refuses returns Unavailable while the policies would refuse something that a plain consumer has.
func (l *Lending) refuses(ctx context.Context, consumer string) error {
	found, err := l.refused(ctx, consumer)
	if err == nil && len(found) > 0 {
		err = api.Errorf(api.CodeUnavailable, "the policies would refuse %s", trust.Text(strings.Join(found, ", ")))
	}
	return err
}

// Refused finds plain consumers that are not guarded yet because the policies would refuse what they have.
func (l *Lending) Refused(ctx context.Context) (found []api.Problem, err error) {
	seen := map[string]bool{}
	for _, c := range l.options.Sharing().PlainConsumers() {
		if _, waits := l.guards(c.Cluster); !waits || seen[c.Cluster] {
			continue
		}
		seen[c.Cluster] = true
		refused, err := l.refused(ctx, c.Cluster)
		if err != nil {
			return nil, err
		}
		if len(refused) > 0 {
			found = append(found, health.PlainConsumerRefused.Of("cluster "+c.Cluster,
				"ask its admin to end these, or remove it from plainConsumers of the SharingPolicy",
				"the policies would refuse %s", trust.Text(strings.Join(refused, ", "))))
		}
	}
	return found, nil
}
