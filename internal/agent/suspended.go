package agent

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/trust"
)

// suspension is that a consumer gets nothing more of a provider, while what it has goes on. A consumer reads it in its slice, which
// Liqo copies: nobody stands between.
type suspension struct {
	reason  string // of the condition; empty: there is none
	why     string // what the provider's admin says
	message string
}

func (s suspension) is() bool { return s.reason != "" }

// suspensionBy is what the admin says of a consumer.
func suspensionBy(spec *api.PeerSpec, consumer string) suspension {
	if !spec.Suspend {
		return suspension{}
	}
	why := cmp.Or(spec.SuspendReason, "no reason was given")
	return suspension{grant.ReasonSuspended, why, fmt.Sprintf("the provider's admin has suspended %s: %s; running pods stay, and nothing more is lent", consumer, why)}
}

// suspends reads what the admin says of a consumer.
func (p *peers) suspends(ctx context.Context, consumer string) (suspension, error) {
	var object api.Peer
	err := p.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: consumer}, &object)
	return suspensionBy(&object.Spec, consumer), client.IgnoreNotFound(err)
}

// suspended puts a suspension among the conditions of an object about a peer, nil: as it was last known. It returns what tells the news
// in an Event, once the conditions are written.
func (s *standings) suspended(conditions *[]metav1.Condition, now *suspension, generation int64) (tell func(about runtime.Object)) {
	before := meta.FindStatusCondition(*conditions, api.ConditionSuspended)
	switch {
	case now == nil || !now.is() && before == nil:
		return func(runtime.Object) {}
	case !now.is():
		meta.RemoveStatusCondition(conditions, api.ConditionSuspended)
		return func(about runtime.Object) {
			s.events.Eventf(about, nil, corev1.EventTypeNormal, "Resumed", "Suspend", "the suspension is over")
		}
	}
	c := now.condition(generation)
	news := before == nil || before.Reason != c.Reason || before.Message != c.Message
	meta.SetStatusCondition(conditions, c)
	return func(about runtime.Object) {
		if news {
			s.events.Eventf(about, nil, corev1.EventTypeWarning, c.Reason, "Suspend", "%.1000s", c.Message) // the API server takes 1024 bytes
		}
	}
}

func (s suspension) condition(generation int64) metav1.Condition {
	return metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionTrue, Reason: s.reason, Message: s.message, ObservedGeneration: generation}
}

// suspension is what the provider's slices show; not known before they were looked at.
func (b *borrow) suspension(_ context.Context, provider string) (*suspension, error) {
	if s, known := b.suspended[provider]; known {
		return &s, nil
	}
	return nil, nil
}

// showSuspension notes what a slice shows, and puts it on the instructions of its loans.
func (b *borrow) showSuspension(ctx context.Context, provider string, loans []loan, slice offload.Standing) {
	s := suspension{reason: slice.Held, message: trust.Text(slice.Why)}
	b.suspended[provider] = s
	for _, l := range loans {
		if l.Object == nil {
			continue
		}
		var i api.ReservationInstruction
		if b.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.ID}, &i) != nil {
			continue // it is a picture: the next look draws it
		}
		before := i.DeepCopy()
		if s.is() {
			meta.SetStatusCondition(&i.Status.Conditions, s.condition(i.Generation))
		} else {
			meta.RemoveStatusCondition(&i.Status.Conditions, api.ConditionSuspended)
		}
		if !equality.Semantic.DeepEqual(before.Status, i.Status) {
			_ = b.Status().Patch(ctx, &i, client.MergeFrom(before))
		}
	}
}
