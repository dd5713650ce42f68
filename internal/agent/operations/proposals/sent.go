package proposals

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/trust"
)

const (
	// keepsEnded is how long an object stays after its proposal has expired: its answer may still be on sale.
	keepsEnded = answerStands
	// maxStanding bounds the proposals of a namespace that stand at the same time. Each is asked for.
	maxStanding = 16
	// askEvery is how often a seller is asked for its answer, and sendEvery how often a proposal is sent until it is there.
	askEvery, sendEvery = 10 * time.Second, time.Minute
)

// The reasons of [api.ConditionSent] besides the codes of errors.
const (
	reasonSigned  = "Signed"
	reasonSent    = "Sent"
	reasonExpired = "Expired"
)

// wishOf returns what an object proposes.
func wishOf(o *api.Proposal) api.ProposalCreate {
	s := o.Spec
	return api.ProposalCreate{Seller: s.Seller, Offer: s.Offer, Plan: s.Plan, ProposalTerms: s.ProposalTerms, Within: s.Within}
}

// follow does the next step of a proposal of this cluster: it signs it, sends it, reads the answer, or deletes the
// object.
func (p *Proposals) follow(ctx context.Context, o *api.Proposal) (ctrl.Result, error) {
	now, ended := p.Ledger.Now().Go(), o.CreationTimestamp.Time
	if o.Status.Expires != nil {
		ended = o.Status.Expires.Time
	}
	stands := o.Status.Issued != nil && now.Before(ended)
	switch left := ended.Add(keepsEnded).Sub(now); {
	case left <= 0:
		return ctrl.Result{}, p.delete(ctx, o)
	case o.Status.Issued == nil:
		return p.signObject(ctx, o, now)
	case meta.IsStatusConditionTrue(o.Status.Conditions, api.ConditionSent):
		if !stands {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		return p.ask(ctx, o)
	case !stands:
		return p.showSent(ctx, o, nil, left)
	default:
		return p.send(ctx, o)
	}
}

// signObject decides what is signed. It is sent once the object says so: if the agent ends in between, it sends the same.
func (p *Proposals) signObject(ctx context.Context, o *api.Proposal, now time.Time) (ctrl.Result, error) {
	signed, document, err := p.sign(wishOf(o), now)
	if o.Spec.Buyer != "" {
		err = api.Invalid("spec.buyer", "the agent sets it, in namespace %s alone", p.Namespace).
			Fix("leave it out: this cluster is the buyer")
	}
	if err != nil {
		return p.showSent(ctx, o, err, keepsEnded)
	}
	listed := func() (map[string]time.Time, error) { return p.listStanding(ctx, o.Namespace) }
	full, err := p.stands.add(client.ObjectKeyFromObject(o), signed.Expires.Time, now, listed)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !full.IsZero() {
		return p.showSent(ctx, o, api.Errorf(api.CodeTooManyRequests, "%d proposals of this namespace stand already",
			maxStanding).Fix("wait until one expires"), max(full.Sub(now), sendEvery))
	}
	next := o.Status.DeepCopy()
	next.ID, next.Digest = trust.ProposalID(document), clusterkey.Digest(document).String()
	next.Issued, next.Expires = &signed.Issued, &signed.Expires
	meta.SetStatusCondition(&next.Conditions, metav1.Condition{Type: api.ConditionSent, Status: metav1.ConditionFalse,
		Reason: reasonSigned, Message: "it is sent to " + o.Spec.Seller, ObservedGeneration: o.Generation})
	return p.write(ctx, o, next, 0)
}

// send sends what was signed.
func (p *Proposals) send(ctx context.Context, o *api.Proposal) (ctrl.Result, error) {
	_, document, err := p.sign(wishOf(o), o.Status.Issued.Time)
	switch {
	case err != nil:
	case clusterkey.Digest(document).String() != o.Status.Digest:
		err = api.Errorf(api.CodeConflict, "the spec, or the key of this cluster, has changed since it was signed").
			Fix("delete it and make another")
	default:
		if _, err = p.Sellers.Propose(ctx, o.Spec.Seller, document); err == nil {
			next := o.Status.DeepCopy()
			sent := metav1.Condition{Type: api.ConditionSent, Status: metav1.ConditionTrue, Reason: reasonSent,
				Message: o.Spec.Seller + " has it", ObservedGeneration: o.Generation}
			meta.SetStatusCondition(&next.Conditions, sent)
			waits := outcome(api.KnownProposal{})
			waits.ObservedGeneration = o.Generation
			meta.SetStatusCondition(&next.Conditions, waits)
			return p.write(ctx, o, next, askEvery)
		}
	}
	return p.showSent(ctx, o, err, sendEvery)
}

// showSent shows why a proposal is not sent; a nil error says that it has expired.
func (p *Proposals) showSent(ctx context.Context, o *api.Proposal, failed error, again time.Duration) (ctrl.Result, error) {
	c := metav1.Condition{Type: api.ConditionSent, Status: metav1.ConditionFalse, Reason: reasonExpired,
		Message: "its time ended before the seller had it", ObservedGeneration: o.Generation}
	if failed != nil {
		c.Reason, c.Message = string(api.CodeOf(failed)), trust.Text(api.WithoutCode(failed.Error()))
	}
	next := o.Status.DeepCopy()
	meta.SetStatusCondition(&next.Conditions, c)
	return p.write(ctx, o, next, again)
}

// ask reads the answer of the seller, and shows it. A seller that does not answer, or forgot the proposal, changes nothing.
// Each seller is asked for one proposal at a time: a slow one holds up one worker.
func (p *Proposals) ask(ctx context.Context, o *api.Proposal) (ctrl.Result, error) {
	if _, busy := p.asking.LoadOrStore(o.Spec.Seller, true); busy {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	defer p.asking.Delete(o.Spec.Seller)
	next := o.Status.DeepCopy()
	for _, proposal := range p.Sent(ctx, func(seller string) bool { return seller == o.Spec.Seller }) {
		says := proposal.Payload
		if says.Digest != o.Status.Digest {
			continue
		}
		answer := outcome(says)
		answer.ObservedGeneration = o.Generation
		if answer.Message = trust.Text(answer.Message); answer.Reason == reasonAccepted || answer.Reason == reasonCountered {
			answer.Message += fmt.Sprintf("; to buy: bourse buy %s/%s/%s", o.Spec.Seller, says.Answer, o.Spec.Plan)
		}
		meta.SetStatusCondition(&next.Conditions, answer)
		next.Offer, next.Reason = says.Answer, says.Reason
	}
	return p.write(ctx, o, next, askEvery)
}
