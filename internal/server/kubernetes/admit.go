package kubernetes

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

const (
	lookEvery = 100 * time.Millisecond // how often to check for new and former members
	claimers  = 4                      // namespaces made at a time
)

// followMembers requests a namespace for each approved member, and notifies the session of each member
// whose membership changed.
func (f *service) followMembers(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer f.claims.ShutDown()
	if !f.cache.WaitForCacheSync(ctx) {
		return
	}
	for range claimers {
		all.Go(func() {
			for f.nextClaim(ctx) {
			}
		})
	}
	seen := &market.View{}
	wait.UntilWithContext(ctx, func(context.Context) {
		view := f.Server.Exchange.View()
		view.Changed(seen, func(slot int) {
			l := view.At(slot)
			if slot < seen.Len() && seen.At(slot).Member == l.Member {
				return
			}
			f.notify(kubernetes.Namespace(l.Cluster), (*memberSession).invalidate)
			f.claims.Add(l.Cluster)
		})
		seen = view
	}, lookEvery)
}

// nextClaim makes a namespace for a member without one. The member's session does the rest.
func (f *service) nextClaim(ctx context.Context) bool {
	cluster, stop := f.claims.Get()
	if stop {
		return false
	}
	defer f.claims.Done(cluster)
	var err error
	if l := f.Server.Exchange.View().Listing(cluster); l != nil && l.Active() && !f.claimed(ctx, cluster) {
		err = claim(ctx, f.client, cluster)
		f.logUnbound(ctx, cluster, err)
	}
	if err == nil {
		f.claims.Forget(cluster)
	} else {
		f.claims.AddRateLimited(cluster)
	}
	return true
}

// claimed reports whether the cache has the namespace of a cluster.
func (f *service) claimed(ctx context.Context, cluster string) bool {
	there := &corev1.Namespace{}
	return f.cache.Get(ctx, client.ObjectKey{Name: kubernetes.Namespace(cluster)}, there) == nil &&
		there.Labels[kubernetes.ClusterLabel] == cluster
}

// followAccounts makes the sessions check their accounts, once these are cached. If the broker lacks the
// permission to see them, it serves the members without that check.
func (f *service) followAccounts(ctx context.Context) {
	if !f.accounts.WaitForCacheSync(ctx) {
		return
	}
	f.accountsKnown.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.sessions {
		m.invalidate()
	}
}

// logUnbound logs why a member is not bound: once for each member, and once for all if the broker lacks the
// permission. It serves members that an admin prepared in any case.
func (f *service) logUnbound(ctx context.Context, cluster string, err error) {
	if err == nil || ctx.Err() != nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return
	}
	about, remedy := cluster, "it is tried again; by hand: bourse broker kubeconfig "+cluster
	if known, ok := errors.AsType[*api.Error](err); ok {
		remedy = known.Remedy
	} else if apierrors.IsForbidden(err) {
		about, remedy = "",
			"kubectl apply -k config/kubernetes, or prepare each member that needs it: bourse broker kubeconfig CLUSTER"
	}
	if last, ever := f.complaints.Swap(about, err.Error()); ever && (about == "" || last == err.Error()) {
		return
	}
	f.log.Warn("the broker cannot bind a member to a namespace of its cluster",
		"cluster", cluster, "error", err, "remedy", remedy)
}

// admit gives the member access, if it has none. A failure does not stop the session; the next
// reconciliation tries again.
func (m *memberSession) admit(ctx context.Context) {
	if !m.accountsKnown.Load() {
		return
	}
	in, err := isIn(ctx, m.accounts, m.cluster)
	if err == nil && !in {
		m.admitted = true // even if the answer is lost
		err = letIn(ctx, m.client, m.cluster)
	}
	m.logUnbound(ctx, m.cluster, err)
}

// expel ends all tokens of a member that was revoked or removed.
func (m *memberSession) expel(ctx context.Context) error {
	account := &corev1.ServiceAccount{}
	err := m.client.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: kubernetes.Account}, account)
	if apierrors.IsNotFound(err) {
		m.admitted = false
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	l := m.Server.Exchange.View().Listing(m.cluster)
	if l == nil || l.Member == nil || !m.admitted && account.CreationTimestamp.After(l.Member.Changed.Go()) {
		return nil // it has to join again
	}
	m.log.Info("a member's account in the broker's cluster is deleted, and with it its tokens",
		"namespace", m.namespace, "member", l.Member.State)
	if err := m.client.Delete(ctx, account); client.IgnoreNotFound(err) != nil {
		return err
	}
	m.admitted = false
	return nil
}
