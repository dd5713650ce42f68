package proposals

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/act"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// The reasons of [api.ConditionAnswered] of a Proposal.
const (
	reasonWaits     = "Waits"
	reasonAccepted  = "Accepted"
	reasonCountered = "Countered"
	reasonDeclined  = "Declined"
)

// soon is when a status is written again that was written to an old copy. lookAgain is how often an
// object is compared with the Ledger, where a new proposal takes the place of declined ones.
const soon, lookAgain = time.Second, 10 * time.Minute

// lookAtReceived looks at each proposal that this cluster received.
func (p *Proposals) lookAtReceived(ctx context.Context) error {
	all, err := p.Received(ctx)
	for _, proposal := range all {
		p.Changed.Add(p.Namespace, proposal.ID)
	}
	return err
}

// specOf returns the spec of a proposal that this cluster received.
func specOf(found received) api.ProposalSpec {
	asked := found.shown.Proposal
	return api.ProposalSpec{Seller: asked.Seller, Offer: asked.Offer, Plan: asked.Plan, ProposalTerms: asked.ProposalTerms,
		Buyer: found.buyers[0]}
}

// create makes the object of a proposal that this cluster received. It leads to Reconcile again.
func (p *Proposals) create(ctx context.Context, id string, found received) error {
	object := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: id}, Spec: specOf(found)}
	err := p.Client.Create(ctx, object)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return kubeobject.Error(client.IgnoreAlreadyExists(err)) // our cache is behind
}

// showReceived carries out what an admin answers to a proposal that this cluster received, if it has not been carried
// out, and shows what the Ledger says. It shows the error of an answer until the answer or the Ledger changes.
func (p *Proposals) showReceived(ctx context.Context, o *api.Proposal, found received) (ctrl.Result, error) {
	id, now := o.Name, p.Ledger.Now().Go()
	next := o.Status.DeepCopy()
	known := meta.FindStatusCondition(next.Conditions, api.ConditionAnswered)
	isNew := known == nil || known.ObservedGeneration < o.Generation
	var failed error
	if o.Spec.Answer != nil && isNew {
		if failed = p.carryOut(ctx, o, found); api.IsTemporary(failed) {
			return ctrl.Result{}, failed
		}
		var err error
		if found, err = p.find(ctx, id); err != nil || len(found.buyers) != 1 {
			return ctrl.Result{RequeueAfter: soon}, err
		}
	}
	says := found.shown
	moved := next.Offer != says.Answer || next.Reason != says.Reason
	next.ID, next.Digest, next.Offer, next.Reason = id, says.Digest, says.Answer, says.Reason
	if next.Expires = &says.Proposal.Expires; !says.Proposal.Issued.IsZero() { // the buyer may have left it out
		next.Issued = &says.Proposal.Issued
	}
	answered := p.answered(o, says)
	if failed != nil {
		answered.Status, answered.Reason = metav1.ConditionFalse, string(api.CodeOf(failed))
		answered.Message = "spec.answer changed nothing: " + api.WithoutCode(failed.Error())
	} else if !isNew && !moved && known.Status == metav1.ConditionFalse && known.Reason != reasonWaits {
		answered = *known
	}
	meta.SetStatusCondition(&next.Conditions, answered)
	return p.write(ctx, o, next, min(lookAgain, says.Proposal.Expires.Sub(now)))
}

// carryOut does what an admin answers, if the Ledger does not say that it is done: the agent may have ended before the
// object said so, and the offer may have been bought since then. Errors: Conflict if the object is not what the buyer signed; those of Answer.
func (p *Proposals) carryOut(ctx context.Context, o *api.Proposal, found received) error {
	order := act.Digest(string(o.UID), strconv.FormatInt(o.Generation, 10))
	if found.order == order {
		return nil
	}
	seen := o.Spec
	seen.Answer = nil
	if !equality.Semantic.DeepEqual(seen, specOf(found)) {
		return api.Errorf(api.CodeConflict, "spec is not what %s signed", found.buyers[0]).
			Fix("delete the object: the agent makes it again")
	}
	reply := o.Spec.Answer
	word := api.ProposalAnswer{Digest: found.shown.Digest, Decline: reply.Decision == api.ProposalDecline}
	switch reply.Decision {
	case api.ProposalAccept:
	case api.ProposalCounter, api.ProposalDecline:
		word.ProposalTerms = reply.ProposalTerms
	default:
		return api.Invalid("spec.answer.decision", "%.40q is no decision", string(reply.Decision)).
			Fix("write Accept, Counter or Decline")
	}
	_, err := p.answer(ctx, o.Name, order, word)
	return err
}

// answered returns what the Ledger says of the answer to a proposal.
func (p *Proposals) answered(o *api.Proposal, says api.KnownProposal) metav1.Condition {
	c := outcome(says)
	c.ObservedGeneration = o.Generation
	if c.Reason == reasonWaits {
		c.Message = fmt.Sprintf("to answer: kubectl -n %s patch proposal %s --type merge -p "+
			`'{"spec":{"answer":{"decision":"Accept"}}}'; or Decline, or Counter with other terms`, o.Namespace, o.Name)
	}
	return c
}

// outcome returns the condition of how a proposal was answered.
func outcome(says api.KnownProposal) metav1.Condition {
	c := metav1.Condition{Type: api.ConditionAnswered, Status: metav1.ConditionTrue}
	to := says.Proposal.Seller + "/" + says.Answer + "/" + says.Proposal.Plan
	switch {
	case says.Declined:
		c.Reason, c.Message = reasonDeclined, cmp.Or(says.Reason, "the seller makes no offer")
	case says.Answer == "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonWaits, "the seller has not answered"
	case says.Countered:
		c.Reason, c.Message = reasonCountered, "on sale to the buyer alone, with other terms, as "+to
	default:
		c.Reason, c.Message = reasonAccepted, "on sale to the buyer alone as "+to
	}
	return c
}

// write writes the status of a proposal, and returns when to look at it again: after a time, or soon if the object was an
// old copy.
func (p *Proposals) write(ctx context.Context, o *api.Proposal, next *api.ProposalStatus,
	again time.Duration) (ctrl.Result, error) {
	err := kubeobject.ReplaceStatus(ctx, p.Client, o, &o.Status, *next)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	return ctrl.Result{RequeueAfter: max(again, soon)}, kubeobject.Error(err)
}
