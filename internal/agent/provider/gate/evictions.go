package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// Evict is the act by which an admin ends what a Peer has reserved here.
var Evict = act.Act{Name: "evict", Done: "Evicted", Kind: "peer", Shows: ".status.lent"}

// Evictions is the controller that shows in a Peer what the cluster has reserved here, and ends that by an annotation.
type Evictions struct {
	client.Client
	Gate *Gate
	// Trigger names the Peers whose reservations changed.
	Trigger *kubeobject.Trigger
	// Events receives each answer. May be nil.
	Events events.EventRecorder
}

// Control starts the controller.
func (e *Evictions) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("eviction").For(&api.Peer{}).WatchesRawSource(e.Trigger).Complete(e)
}

// Reconcile shows what a cluster has reserved here. It carries out an eviction that it has not answered yet, and
// answers it.
func (e *Evictions) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	var object api.Peer
	if err := e.Get(ctx, at.NamespacedName, &object); err != nil {
		return ctrl.Result{}, kubeobject.Error(client.IgnoreNotFound(err))
	}
	lent, err := e.Gate.lentTo(ctx, object.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	next, digest := object.Status.DeepCopy(), ""
	if next.Lent = nil; len(lent) > 0 {
		digest = lentDigest(&object, lent)
		next.Lent = &api.LentToPeer{Reservations: int64(len(lent)), Digest: digest}
	}
	var answer *metav1.Condition
	if value, given := object.Annotations[Evict.Annotation()]; given {
		order := Evict.Decide(value, digest, object.Status.Answered[Evict.Name])
		if answer, err = e.answer(ctx, &object, next, order, lent); err != nil {
			return ctrl.Result{}, err
		}
	}
	err = kubeobject.ReplaceStatus(ctx, e.Client, &object, &object.Status, *next)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // the copy is old: the newer one leads here again
	}
	if err == nil && answer != nil {
		act.Tell(e.Events, &object, *answer)
	}
	return ctrl.Result{}, kubeobject.Error(err)
}

// answer carries out an order about what was lent, and puts the answer into next. Nil: there was no answer to
// give.
func (e *Evictions) answer(ctx context.Context, object *api.Peer, next *api.PeerStatus, order act.Order,
	lent []*market.Reservation) (*metav1.Condition, error) {
	if order.Step == act.Nothing {
		return nil, nil
	}
	var failed error
	if order.Step == act.CarryOut {
		_, failed = e.Gate.end(ctx, lent)
	}
	answer, err := Evict.Answer(object, order, failed)
	if err != nil {
		return nil, err
	}
	if order.Step == act.ChangedSince && !object.Spec.Suspend {
		answer.Message += fmt.Sprintf("; if %s reserves more in between, suspend it first: bourse suspend %[1]s, or: kubectl "+
			`-n %s patch peer %[1]s --type merge -p '{"spec":{"suspend":true}}'`, object.Name, object.Namespace)
	}
	answer.Type, answer.ObservedGeneration = api.ConditionEvicted, object.Generation
	next.Answered = Evict.Note(next.Answered, order)
	meta.SetStatusCondition(&next.Conditions, answer)
	return &answer, nil
}

// lentDigest returns the digest that an eviction of a Peer names. What is ending is part of it, so that it is the same
// after an eviction that was interrupted. Sizes are not: a suspended cluster may still make its reservations smaller,
// and would outrun each digest.
func lentDigest(o client.Object, lent []*market.Reservation) string {
	parts := []string{string(o.GetUID())}
	for _, r := range lent {
		parts = append(parts, r.ID)
	}
	return act.Digest(parts...)
}

// DigestLent returns the digest that an eviction of a Peer names now. Empty: nothing is lent to its cluster. Errors: those
// of the Ledger.
func (g *Gate) DigestLent(ctx context.Context, peer client.Object) (string, error) {
	lent, err := g.lentTo(ctx, peer.GetName())
	if err != nil || len(lent) == 0 {
		return "", err
	}
	return lentDigest(peer, lent), nil
}

// lentTo returns the reservations of a consumer here that count, by ID. Errors: those of the Ledger.
func (g *Gate) lentTo(ctx context.Context, consumer string) ([]*market.Reservation, error) {
	lent, err := g.Market.Lent(ctx)
	lent = slices.DeleteFunc(lent, func(r *market.Reservation) bool {
		return r.Consumer != consumer || !r.State.Counts()
	})
	slices.SortFunc(lent, func(a, b *market.Reservation) int { return cmp.Compare(a.ID, b.ID) })
	return lent, err
}

// end ends these reservations, and returns the IDs of those that were not ending. Errors: those of the Ledger; what
// ended before the error is returned with it.
func (g *Gate) end(ctx context.Context, lent []*market.Reservation) (ended []string, err error) {
	for _, r := range lent {
		if r.State == api.Releasing {
			continue
		}
		release := market.Release{ID: r.ID, By: g.Cluster, Reason: api.ReasonRevokedByProvider}
		if _, err := g.Market.Do(ctx, release); err != nil {
			return ended, err
		}
		ended = append(ended, r.ID)
	}
	return ended, nil
}
