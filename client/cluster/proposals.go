package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// known returns a Proposal as users read it. Its ID is that at both sides, or the object's name before it is signed. self
// is the buyer of those that this cluster makes.
func known(o *api.Proposal, self string) api.Envelope[api.KnownProposal] {
	p := api.KnownProposal{Digest: o.Status.Digest, Answer: o.Status.Offer, Reason: o.Status.Reason}
	p.Proposal = api.SignedProposal{Buyer: cmp.Or(o.Spec.Buyer, self), Seller: o.Spec.Seller, Offer: o.Spec.Offer,
		Plan: o.Spec.Plan, ProposalTerms: o.Spec.ProposalTerms}
	if o.Status.Issued != nil {
		p.Proposal.Issued = *o.Status.Issued
	}
	if o.Status.Expires != nil {
		p.Proposal.Expires = *o.Status.Expires
	}
	if answer := meta.FindStatusCondition(o.Status.Conditions, api.ConditionAnswered); answer != nil {
		p.Countered, p.Declined = answer.Reason == "Countered", answer.Reason == "Declined"
	}
	return api.Envelope[api.KnownProposal]{ID: cmp.Or(o.Status.ID, o.Name), Revision: uint64(o.Generation), Payload: p}
}

// Proposals returns the proposals that the user may list: those of the namespaces and, with a right to list those of the
// agent, what the cluster received.
func (c *Client) Proposals(ctx context.Context) ([]api.Envelope[api.KnownProposal], error) {
	self, _ := c.Status(ctx) // while no agent answers, the buyer of its own is not known
	return c.ProposalsOf(ctx, self.Cluster)
}

// ProposalsOf is [Client.Proposals] of a cluster whose ID is known, or "": then its own have no buyer. It asks no agent.
func (c *Client) ProposalsOf(ctx context.Context, self string) ([]api.Envelope[api.KnownProposal], error) {
	out := []api.Envelope[api.KnownProposal]{}
	err := list(ctx, c, true, func(_ string, all *api.ProposalList) error {
		for i := range all.Items {
			out = append(out, known(&all.Items[i], self))
		}
		return nil
	})
	return out, err
}

// Propose makes a Proposal, and waits until the seller has it. One that the agent or the seller refuses is deleted.
// Errors: Invalid; those of the seller; Unavailable if it does not have it yet: then the agent sends it again.
func (c *Client) Propose(ctx context.Context, p api.ProposalCreate) (none api.Envelope[api.KnownProposal], err error) {
	o := &api.Proposal{Spec: api.ProposalSpec{Seller: p.Seller, Offer: p.Offer, Plan: p.Plan,
		ProposalTerms: p.ProposalTerms, Within: p.Within}}
	o.Namespace = cmp.Or(c.namespaces[0], metav1.NamespaceDefault)
	o.Name = "proposal-" + strings.ToLower(rand.Text()[:10])
	if err := c.objects.Create(ctx, o); err != nil {
		return none, kubeobject.Error(err)
	}
	sent, err := c.awaitCondition(ctx, o, &o.Status.Conditions, api.ConditionSent, func(sent *metav1.Condition) bool {
		return sent.Reason != "Signed"
	})
	if err != nil {
		return none, err
	}
	if sent.Status == metav1.ConditionTrue {
		return known(o, ""), nil
	}
	if err := errorOfCondition(sent); api.CodeOf(err) != api.CodeUnavailable {
		_ = c.objects.Delete(ctx, o, kube.Preconditions{UID: &o.UID}) // else it ends by itself
		return none, err
	}
	return none, api.Errorf(api.CodeUnavailable, "%s does not have the proposal yet: %s", p.Seller, sent.Message).
		Fix("wait: the agent sends it again each minute; to give it up: kubectl -n %s delete proposal %s", o.Namespace, o.Name)
}

// AnswerProposal answers a proposal that this cluster received, and waits until the agent has done so. Errors: NotFound;
// Conflict if it is another one than the user names; Invalid.
func (c *Client) AnswerProposal(ctx context.Context, id string,
	a api.ProposalAnswer) (none api.Envelope[api.KnownProposal], err error) {
	o := &api.Proposal{ObjectMeta: c.own(ctx, id)}
	err = c.objects.Get(ctx, kube.ObjectKeyFromObject(o), o)
	switch {
	case err == nil && o.Spec.Buyer == "", apierrors.IsNotFound(err):
		return none, api.Errorf(api.CodeNotFound, "this cluster received no proposal %.63q, or it has expired", id).
			FixBy("see", "bourse", "proposals")
	case err != nil:
		return none, kubeobject.Error(err)
	case a.Digest != "" && a.Digest != o.Status.Digest:
		return none, api.Errorf(api.CodeConflict, "proposal %s is another document than the one with digest %.128q", id, a.Digest).
			At("digest").FixBy("read it again, and name its digest", "bourse", "proposals", "-o", "wide")
	}
	reply := &api.ProposalReply{Decision: api.ProposalAccept, ProposalTerms: a.ProposalTerms}
	if a.Decline {
		reply.Decision = api.ProposalDecline
	} else if a.Price != nil || a.Units != 0 || a.Duration != nil {
		reply.Decision = api.ProposalCounter
	}
	if err := c.patch(ctx, o, func() { o.Spec.Answer = reply }); err != nil {
		return none, err
	}
	answered, err := c.awaitCondition(ctx, o, &o.Status.Conditions, api.ConditionAnswered, func(now *metav1.Condition) bool {
		return now.ObservedGeneration >= o.Generation
	})
	if err == nil && answered.Status != metav1.ConditionTrue {
		err = errorOfCondition(answered)
	}
	return known(o, ""), err
}

// awaitCondition waits until a condition of an object, which it reads again, is as wanted. Errors: Unavailable; Conflict if
// the object is gone.
func (c *Client) awaitCondition(ctx context.Context, o kube.Object, conditions *[]metav1.Condition, kind string,
	wanted func(*metav1.Condition) bool) (*metav1.Condition, error) {
	var found *metav1.Condition
	name := o.GetNamespace() + "/" + o.GetName()
	gone, err := c.await(ctx, o, "looked at "+name, func() bool {
		found = meta.FindStatusCondition(*conditions, kind)
		return found != nil && wanted(found)
	})
	if err == nil && gone {
		err = api.Errorf(api.CodeConflict, "%s was deleted meanwhile", name).Fix("repeat the command")
	}
	return found, err
}

// errorOfCondition returns the error that a condition shows.
func errorOfCondition(c *metav1.Condition) error {
	code := api.Code(c.Reason)
	if _, ok := api.Codes[code]; !ok {
		code = api.CodeConflict
	}
	return api.Errorf(code, "%s", c.Message)
}
