package contract

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Objects writes the contracts of a cluster as objects.
type Objects struct {
	client.Client
	Cluster string
	Key     *clusterkey.Key
	Market  *exchange.Exchange
}

// Reclaim is the act by which the seller takes a contract back.
var Reclaim = act.Act{Name: "reclaim", Done: "Reclaimed", Kind: "contract", Shows: ".status"}

// ReclaimDigest returns the digest that a reclaim of a Contract names.
func ReclaimDigest(o client.Object, r *market.Reservation) string {
	return act.Digest(string(o.GetUID()), strconv.FormatInt(r.Generation, 10))
}

// Show creates or updates the Contract object of a record. A record that is not a contract has none. It returns when to
// show the contract again, because more of it is due then: 0 for never.
func (o *Objects) Show(ctx context.Context, namespace string, r *market.Reservation) (again time.Duration, err error) {
	if !Is(r) {
		return 0, nil
	}
	spec := Spec(r)
	spec.SellerKey, spec.BuyerKey = o.signer(ctx, r.Provider, api.DocumentAcceptance,
		r.Acceptance), o.signer(ctx, r.Consumer, api.DocumentAssignment, r.Assignment)
	object := &api.Contract{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.ID}}
	_, err = controllerutil.CreateOrPatch(ctx, o.Client, object, func() error {
		object.Spec = spec
		return nil
	})
	// Our cache may lag: the next change writes it. A namespace that is being deleted takes its
	// records along.
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = kubeobject.Edit(ctx, func() error {
		next := object.Status.DeepCopy()
		if SetStatus(next, r, object.Generation); next.Terms.Units != object.Status.Terms.Units {
			next.Due = nil // what is due since then has another price
		}
		again = SetDue(next, r, o.Market.Now().Go())
		if next.Digest = ""; r.Provider == o.Cluster && r.Bound() && r.Notice() > 0 && r.Reclaim == "" {
			next.Digest = ReclaimDigest(object, r)
		}
		err := kubeobject.ReplaceStatus(ctx, o.Client, object, &object.Status, *next)
		if apierrors.IsConflict(err) { // the copy is old, and may lack an answer: read it for the next try
			_ = o.Get(ctx, client.ObjectKeyFromObject(object), object)
		}
		return err
	})
	return again, err
}

// dueEvery is how often what is due is written: each contract costs the API server a write.
const dueEvery = time.Hour

// SetDue sets what is due at a time, if the status does not have that of the hour before. It returns when that is to be
// set again: 0 for never, because the contract is free or over.
func SetDue(s *api.ContractStatus, r *market.Reservation, now time.Time) (again time.Duration) {
	old, end := s.Due, r.LastsUntil().Go()
	if s.Due = nil; CostText(r, end) == "" {
		return 0
	}
	at := now.Truncate(time.Second) // as it is stored: else it differs each time
	if !end.After(now) {
		at = end
	} else if old != nil {
		if passed := now.Sub(old.At.Time); passed >= 0 && passed < dueEvery {
			s.Due = old
			return min(dueEvery-passed, end.Sub(now))
		}
	}
	s.Due = &api.Due{Amount: CostText(r, at), At: metav1.NewTime(at)}
	return max(0, min(dueEvery, end.Sub(now)))
}

// signer returns the key, current or former, with which a cluster signed a document; empty if none.
func (o *Objects) signer(ctx context.Context, cluster, kind, document string) string {
	keys, _ := trust.Keys(ctx, o.Market, cluster)
	if cluster == o.Cluster {
		keys = append(keys, o.Key.Public())
	}
	var any map[string]any
	if key, err := trust.Verified(document, kind, &any, keys...); err == nil {
		return key.String()
	}
	return ""
}

// SetStatus sets what a Contract shows of its record.
func SetStatus(s *api.ContractStatus, r *market.Reservation, generation int64) {
	s.State, s.Reason, s.Terms, s.Cost = r.State, r.Reason, Terms(r), CostText(r, r.Until.Go())
	if s.Reclaimed = nil; r.ReclaimAt != 0 {
		at := r.ReclaimAt.Meta()
		s.Reclaimed = &at
	}
	if r.Breached() {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: api.ConditionBreached,
			Status: metav1.ConditionTrue, Reason: string(r.Reason),
			Message: r.Provider + " ended it at " + r.LastsUntil().Go().Format(time.RFC3339) +
				", before its time, which the contract does not allow", ObservedGeneration: generation})
	}
	until := r.LastsUntil().Meta()
	s.Until, s.Ended = &until, nil
	if r.Ended != 0 {
		s.Ended = &until
	}
	c := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse,
		Reason: string(r.State), ObservedGeneration: generation, Message: "it is over"}
	switch {
	case r.Bound():
		c.Status, c.Message = metav1.ConditionTrue, "both sides are bound"
		if r.ReclaimAt != 0 {
			c.Message += "; the seller takes it back at " + r.ReclaimAt.Go().Format(time.RFC3339)
		}
	case r.State == api.Releasing:
		c.Message = "it is ending"
	}
	if r.Reason != "" {
		c.Reason = string(r.Reason)
	}
	meta.SetStatusCondition(&s.Conditions, c)
}
