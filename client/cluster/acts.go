package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// actWithin is how long a user waits for the agent's answer to an act.
const actWithin = 20 * time.Second

// act carries out what the annotation bourse.dev/NAME with a digest of what the user saw stands for, and waits for the
// agent's answer. read returns what the object, which act reads again, says of answers. Errors: Conflict if it changed since then; Unavailable without an answer.
func (c *Client) act(ctx context.Context, object kube.Object, name, digest, text string,
	read func() (answered map[string]string, conditions []metav1.Condition), condition string) error {
	value := digest + "." + strings.ToLower(rand.Text()[:10])
	if err := c.annotate(ctx, object, api.Group+"/"+name, strings.TrimSpace(value+" "+text)); err != nil {
		return err
	}
	for end := time.Now().Add(actWithin); ; {
		answered, conditions := read()
		if answer := meta.FindStatusCondition(conditions, condition); answered[name] == value && answer != nil {
			if answer.Status == metav1.ConditionTrue {
				return nil
			}
			return api.Errorf(api.CodeConflict, "%s", answer.Message)
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return api.Errorf(api.CodeUnavailable, "the agent has not answered %s of %s yet", name, object.GetName()).
				Fix("see whether it runs: kubectl -n %s get pods; it answers later", api.Namespace)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(object), object); err != nil && ctx.Err() == nil {
			return kubeobject.Error(err)
		}
	}
}

// Approvals returns the requests of other clusters that wait for approval, the longest waiting first.
func (c *Client) Approvals(ctx context.Context) ([]api.Envelope[api.Approval], error) {
	if c.objects == nil {
		return c.Client.Approvals(ctx)
	}
	var all api.ProviderInstructionList
	if err := c.objects.List(ctx, &all, kube.InNamespace(api.Namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	var out []api.Envelope[api.Approval]
	for _, o := range all.Items {
		if waits := o.Status.Approval; waits != nil {
			out = append(out, api.Envelope[api.Approval]{ID: o.Name, Revision: uint64(o.Generation), Payload: api.Approval{
				Consumer: o.Spec.Consumer, Generation: o.Spec.Generation, Resources: o.Spec.Resources, Pool: o.Spec.Pool,
				Offer: waits.Offer, Plan: waits.Plan, Units: waits.Units, Asked: waits.Asked, By: waits.By, Until: o.Spec.Until}})
		}
	}
	slices.SortFunc(out, func(a, b api.Envelope[api.Approval]) int {
		return cmp.Or(a.Payload.Asked.Compare(b.Payload.Asked.Time), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Answer approves or refuses a request of another cluster. Errors: NotFound; Conflict if it does not wait, or differs
// from what the user saw.
func (c *Client) Answer(ctx context.Context, id string, word api.Answer) error {
	if c.objects == nil {
		return c.Client.Answer(ctx, id, word)
	}
	o := &api.ProviderInstruction{ObjectMeta: own(id)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return kubeobject.Error(err)
	}
	waits := o.Status.Approval
	if waits == nil || word.Generation != 0 && word.Generation != o.Spec.Generation {
		return api.Errorf(api.CodeConflict, "reservation %s does not wait for the approval of what you saw", id).
			Fix("see: bourse approvals")
	}
	name := "refuse"
	if word.Approve {
		name, word.Reason = "approve", ""
	}
	return c.act(ctx, o, name, waits.Digest, word.Reason, func() (map[string]string, []metav1.Condition) {
		return o.Status.Answered, o.Status.Conditions
	}, api.ConditionAnswered)
}

// Evict ends all reservations of another cluster here. Errors: NotFound; Conflict if they changed meanwhile.
func (c *Client) Evict(ctx context.Context, peer string) (api.Eviction, error) {
	if c.objects == nil {
		return c.Client.Evict(ctx, peer)
	}
	o := &api.Peer{ObjectMeta: own(peer)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return api.Eviction{}, kubeobject.Error(err)
	}
	if o.Status.Lent == nil {
		return api.Eviction{Reservations: []string{}}, nil
	}
	var all api.ProviderInstructionList
	if err := c.objects.List(ctx, &all, kube.InNamespace(api.Namespace)); err != nil {
		return api.Eviction{}, kubeobject.Error(err)
	}
	ended := []string{}
	for _, i := range all.Items {
		if i.Spec.Consumer == peer && !i.Status.State.Over() {
			ended = append(ended, i.Name)
		}
	}
	return api.Eviction{Reservations: ended}, c.act(ctx, o, "evict", o.Status.Lent.Digest, "",
		func() (map[string]string, []metav1.Condition) { return o.Status.Answered, o.Status.Conditions }, api.ConditionEvicted)
}

// Reclaim takes back what a contract sold, with its notice. Errors: NotFound; Conflict if it changed meanwhile.
func (c *Client) Reclaim(ctx context.Context, id string) (api.Reclaimed, error) {
	if c.objects == nil {
		return c.Client.Reclaim(ctx, id)
	}
	o := &api.Contract{ObjectMeta: own(id)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return api.Reclaimed{}, kubeobject.Error(err)
	}
	if o.Status.Reclaimed == nil {
		err := c.act(ctx, o, "reclaim", o.Status.Digest, "", func() (map[string]string, []metav1.Condition) {
			return o.Status.Answered, o.Status.Conditions
		}, api.ConditionReclaimed)
		if err != nil || o.Status.Reclaimed == nil {
			return api.Reclaimed{}, err
		}
	}
	return api.Reclaimed{At: *o.Status.Reclaimed}, nil
}
