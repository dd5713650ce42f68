package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// actWithin is how long a user waits for the agent's answer to an act.
const actWithin = 20 * time.Second

// GitOf returns what keeps an object of the cluster as it is in Git, such as "Argo CD". Empty: nothing does, or the user
// may not read it.
func (c *Client) GitOf(ctx context.Context, o kube.Object) string {
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return ""
	}
	return kubeobject.GitOf(o)
}

// checkGit refuses a change that Git would undo. Errors: Conflict.
func (c *Client) checkGit(o kube.Object) error {
	by := kubeobject.GitOf(o)
	if by == "" {
		return nil
	}
	what := o.GetName()
	if gvk, err := c.objects.GroupVersionKindFor(o); err == nil {
		what = gvk.Kind + " " + what
	}
	return api.Errorf(api.CodeConflict, "%s keeps %s as it is in Git, and would undo this", by, what).Fix("change it in Git")
}

// act carries out what the annotation bourse.dev/NAME with a digest of what the user saw stands for, and waits for the
// agent's answer. read returns what the object, which act reads again, says of answers. Errors: Conflict if it changed
// since then; Unavailable without an answer.
func (c *Client) act(ctx context.Context, object kube.Object, name, digest, text string,
	read func() (answered map[string]string, conditions []metav1.Condition), condition string) error {
	if digest == "" {
		return api.Errorf(api.CodeConflict, "%s shows nothing to %s yet", object.GetName(), name).Fix("repeat the command")
	}
	value := digest + "." + strings.ToLower(rand.Text()[:10])
	if err := c.annotate(ctx, object, api.Group+"/"+name, strings.TrimSpace(value+" "+text)); err != nil {
		return err
	}
	var answer *metav1.Condition
	gone, err := c.await(ctx, object, fmt.Sprintf("answered %s of %s", name, object.GetName()), func() bool {
		answered, conditions := read()
		answer = meta.FindStatusCondition(conditions, condition)
		return answered[name] == value && answer != nil
	})
	switch {
	case err != nil:
		return err
	case gone:
		return api.Errorf(api.CodeConflict, "%s ended before the agent answered %s", object.GetName(), name).
			Fix("see what there is: bourse reservations")
	case answer.Status == metav1.ConditionTrue:
		return nil
	}
	return errorOfCondition(answer)
}

// await reads an object again until the agent is done with it, or the object is gone. what says what the agent does.
// Errors: Unavailable if it takes too long; those of the API server.
func (c *Client) await(ctx context.Context, o kube.Object, what string, done func() bool) (gone bool, err error) {
	for end := time.Now().Add(actWithin); !done(); {
		if time.Now().After(end) || ctx.Err() != nil {
			return false, api.Errorf(api.CodeUnavailable, "the agent has not %s yet", what).
				Fix("see whether it runs: kubectl -n %s get pods; it continues later", c.AgentNamespace(ctx))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o)
		switch {
		case ctx.Err() != nil: // said above
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, kubeobject.Error(err)
		}
	}
	return false, nil
}

// Approvals returns the requests of other clusters that wait for approval, the longest waiting first.
func (c *Client) Approvals(ctx context.Context) ([]api.Envelope[api.Approval], error) {
	var all api.ProviderInstructionList
	if err := c.objects.List(ctx, &all, kube.InNamespace(c.AgentNamespace(ctx))); err != nil {
		return nil, kubeobject.Error(err)
	}
	out := []api.Envelope[api.Approval]{}
	for _, o := range all.Items {
		if waits := o.Status.Approval; waits != nil {
			out = append(out, api.Envelope[api.Approval]{ID: o.Name, Revision: uint64(o.Generation), Payload: api.Approval{
				Consumer: o.Spec.Consumer, Generation: o.Spec.Generation, Resources: o.Spec.Resources, Pool: o.Spec.Pool,
				Offer: waits.Offer, Plan: waits.Plan, Units: waits.Units, Price: waits.Price, Digest: waits.Digest,
				Asked: waits.Asked, By: waits.By, Until: o.Spec.Until}})
		}
	}
	slices.SortFunc(out, func(a, b api.Envelope[api.Approval]) int {
		return cmp.Or(a.Payload.Asked.Compare(b.Payload.Asked.Time), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Answer approves or refuses a request of another cluster as the user saw it. Errors: NotFound; Conflict if it does not
// wait any more, or differs from what the user saw.
func (c *Client) Answer(ctx context.Context, seen api.Envelope[api.Approval], word api.Answer) error {
	o := &api.ProviderInstruction{ObjectMeta: c.own(ctx, seen.ID)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return kubeobject.Error(err)
	}
	if waits := o.Status.Approval; waits == nil || waits.Digest != seen.Payload.Digest {
		return api.Errorf(api.CodeConflict, "reservation %s does not wait for the approval of what you saw", seen.ID).
			FixBy("see", "bourse", "approvals")
	}
	name := "refuse"
	if word.Approve {
		name, word.Reason = "approve", ""
	}
	return c.act(ctx, o, name, seen.Payload.Digest, word.Reason, func() (map[string]string, []metav1.Condition) {
		return o.Status.Answered, o.Status.Conditions
	}, api.ConditionAnswered)
}

// Evict ends all reservations of another cluster here, as the user saw them in its audit. Errors: NotFound; Conflict if
// there are others by now.
func (c *Client) Evict(ctx context.Context, seen api.Audit) (api.Eviction, error) {
	ended := slices.AppendSeq([]string{}, maps.Keys(seen.Reservations))
	slices.Sort(ended)
	if seen.Digest == "" {
		if len(ended) > 0 {
			return api.Eviction{}, api.Errorf(api.CodeUnavailable, "the agent has not made the Peer %s yet", seen.Cluster).
				Fix("repeat the command")
		}
		return api.Eviction{Reservations: ended}, nil
	}
	o := &api.Peer{ObjectMeta: c.own(ctx, seen.Cluster)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return api.Eviction{}, kubeobject.Error(err)
	}
	return api.Eviction{Reservations: ended}, c.act(ctx, o, "evict", seen.Digest, "",
		func() (map[string]string, []metav1.Condition) { return o.Status.Answered, o.Status.Conditions }, api.ConditionEvicted)
}

// Sold returns a contract that the cluster sold, by the ID of its reservation. Errors: NotFound.
func (c *Client) Sold(ctx context.Context, id string) (api.Envelope[api.Deal], error) {
	deal, err := c.Contract(ctx, c.AgentNamespace(ctx), id)
	if api.CodeOf(err) == api.CodeNotFound {
		err = notSold(id)
	}
	return deal, err
}

// Contract returns a contract of a namespace, by the ID of its reservation. It lists it by its name: the agent, which
// does so for the Distributed Catalog, may list contracts but not get one. Errors: NotFound.
func (c *Client) Contract(ctx context.Context, namespace, id string) (api.Envelope[api.Deal], error) {
	var found api.ContractList
	err := c.objects.List(ctx, &found, kube.InNamespace(namespace), kube.MatchingFields{"metadata.name": id})
	if err != nil {
		return api.Envelope[api.Deal]{}, kubeobject.Error(err)
	}
	if len(found.Items) == 0 {
		return api.Envelope[api.Deal]{}, api.Errorf(api.CodeNotFound, "namespace %s has no contract %.80q", namespace, id).
			Fix("see: bourse contracts")
	}
	return dealOf(&found.Items[0], c.Now()), nil
}

// notSold is the error of a contract that does not exist.
func notSold(id string) error {
	return api.Errorf(api.CodeNotFound, "your cluster sold no contract %.80q", id).
		Fix("see what was sold: bourse contracts --sold; what waits for approval: bourse approvals")
}

// Reclaim takes back what a contract sold, as the user saw it, with its notice. Errors: NotFound; Conflict if it changed
// meanwhile.
func (c *Client) Reclaim(ctx context.Context, seen api.Envelope[api.Deal]) (api.Reclaimed, error) {
	id := seen.Payload.Spec.Reservation
	o := &api.Contract{ObjectMeta: c.own(ctx, id)}
	if err := c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
		return api.Reclaimed{}, kubeobject.Error(err)
	}
	if o.Status.Ended != nil {
		return api.Reclaimed{}, api.Errorf(api.CodeConflict, "contract %s has ended already; nothing was taken back", id).
			FixBy("see", "bourse", "contracts", "--sold")
	}
	if o.Status.Reclaimed == nil {
		if seen.Payload.Status.Digest == "" {
			return api.Reclaimed{}, api.Errorf(api.CodeForbidden, "contract %s cannot be taken back: it has ended, or its plan "+
				"has no notice", id).FixBy("end it early, which is a breach", "bourse", "evict", seen.Payload.Status.Terms.Buyer)
		}
		err := c.act(ctx, o, "reclaim", seen.Payload.Status.Digest, "", func() (map[string]string, []metav1.Condition) {
			return o.Status.Answered, o.Status.Conditions
		}, api.ConditionReclaimed)
		if err != nil {
			return api.Reclaimed{}, err
		}
		// The contract shows its new end a moment after the answer.
		gone, err := c.await(ctx, o, "shown the end of "+id, func() bool { return o.Status.Reclaimed != nil })
		if err == nil && gone {
			err = notSold(id)
		}
		if err != nil {
			return api.Reclaimed{}, err
		}
	}
	return api.Reclaimed{At: *o.Status.Reclaimed}, nil
}
