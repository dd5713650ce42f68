package kubernetes

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

const (
	lookEvery = 100 * time.Millisecond // at who became a member, or is none any more
	claimers  = 4                      // namespaces are made at a time
)

// followMembers has each member's namespace made once it is approved, and tells the desk of each whose standing changed.
func (f *office) followMembers(ctx context.Context) {
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
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for seen := (&market.View{}); ; {
		view := f.Server.Exchange.View()
		view.Changed(seen, func(slot int) {
			l := view.At(slot)
			if slot < seen.Len() && seen.At(slot).Member == l.Member {
				return
			}
			f.tell(kubernetes.Namespace(l.Cluster), (*desk).change)
			f.claims.Add(l.Cluster)
		})
		seen = view
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// nextClaim makes a namespace, if its cluster is a member that has none. Its desk does the rest.
func (f *office) nextClaim(ctx context.Context) bool {
	cluster, stop := f.claims.Get()
	if stop {
		return false
	}
	defer f.claims.Done(cluster)
	var err error
	if l := f.Server.Exchange.View().Listing(cluster); l != nil && l.Active() && !f.claimed(ctx, cluster) {
		err = claim(ctx, f.client, cluster)
		f.complain(ctx, cluster, err)
	}
	if err == nil {
		f.claims.Forget(cluster)
	} else {
		f.claims.AddRateLimited(cluster)
	}
	return true
}

// claimed says whether the cache has the namespace of a cluster.
func (f *office) claimed(ctx context.Context, cluster string) bool {
	there := &corev1.Namespace{}
	return f.cache.Get(ctx, client.ObjectKey{Name: kubernetes.Namespace(cluster)}, there) == nil && there.Labels[kubernetes.ClusterLabel] == cluster
}

// followAccounts has the desks look who is let in, once that is known. Where the broker may not know it, the members are served all the same.
func (f *office) followAccounts(ctx context.Context) {
	if !f.accounts.WaitForCacheSync(ctx) {
		return
	}
	f.accountsKnown.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.desks {
		d.change()
	}
}

// complain logs why a member is not bound: once for each, and once for all where the broker has no right to. Members that an admin prepared are served all
// the same.
func (f *office) complain(ctx context.Context, cluster string, err error) {
	if err == nil || ctx.Err() != nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return
	}
	about, remedy := cluster, "it is tried again; by hand: bourse broker kubeconfig "+cluster
	if ours, ok := errors.AsType[*api.Error](err); ok {
		remedy = ours.Remedy
	} else if apierrors.IsForbidden(err) {
		about, remedy = "", "kubectl apply -k config/kubernetes, or prepare each member that needs it: bourse broker kubeconfig CLUSTER"
	}
	if said, ever := f.complaints.Swap(about, err.Error()); ever && (about == "" || said == err.Error()) {
		return
	}
	f.log.Warn("the broker cannot bind a member to a namespace of its cluster", "cluster", cluster, "error", err, "remedy", remedy)
}

// admit lets the member in, if it is not. That this fails keeps nothing else from it; it is tried again with the next look.
func (d *desk) admit(ctx context.Context) {
	if !d.accountsKnown.Load() {
		return
	}
	in, err := isIn(ctx, d.accounts, d.cluster)
	if err == nil && !in {
		d.admitted = true // even where the answer is lost
		err = letIn(ctx, d.client, d.cluster)
	}
	d.complain(ctx, d.cluster, err)
}

// expel ends all tokens that a member had when it was revoked or removed.
func (d *desk) expel(ctx context.Context) error {
	account := &corev1.ServiceAccount{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: kubernetes.Account}, account)
	if apierrors.IsNotFound(err) {
		d.admitted = false
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	l := d.Server.Exchange.View().Listing(d.cluster)
	if l == nil || l.Member == nil || !d.admitted && account.CreationTimestamp.After(l.Member.Changed.Go()) {
		return nil // it is to join anew
	}
	d.log.Info("a member's account in the broker's cluster is deleted, and with it its tokens", "namespace", d.namespace, "member", l.Member.State)
	if err := d.client.Delete(ctx, account); client.IgnoreNotFound(err) != nil {
		return err
	}
	d.admitted = false
	return nil
}
