// Package proposals negotiates other terms of plans: those that this cluster proposes to sellers, and those that
// buyers propose to it.
//
// A seller keeps what it received in its Ledger, so that a Proposal object there shows the Ledger ([Proposals.Reconcile],
// received.go), and its spec.answer changes the Ledger ([Proposals.Answer]). A buyer keeps nothing but the object: its
// status says what was signed (sent.go). What was signed once is signed the same again, since nothing but the object
// decides what that is.
package proposals

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
	"github.com/bourse-dev/bourse/internal/turns"
)

// Options say who proposes, and what the rest of the agent does for it.
type Options struct {
	Client client.Client
	// Cluster is this cluster, and Key its key. Namespace is the agent's: what this cluster received is shown there.
	Cluster, Namespace string
	Key                *clusterkey.Key
	Ledger             *exchange.Exchange
	Sellers            Sellers
	Offers             Offers
	// Changed receives the IDs of received proposals to look at again. The empty ID stands for all of them.
	Changed *kubeobject.Trigger
}

// Sellers calls the connectors of sellers.
type Sellers interface {
	// Propose sends a signed proposal to a seller's connector.
	Propose(ctx context.Context, seller, document string) (api.Envelope[api.KnownProposal], error)
	// Proposals returns what those sellers that are asked say that this cluster proposed.
	Proposals(ctx context.Context, asked func(seller string) bool) []api.Envelope[api.KnownProposal]
}

// Offers puts on sale what answers a proposal.
type Offers interface {
	CheckAccept(expression string) error
	// PublishAgain publishes an offer that a broker took off sale.
	PublishAgain(name string)
}

// Proposals negotiates. Several goroutines may use it.
type Proposals struct {
	Options
	asking sync.Map // the sellers that are being asked
	stands standing
}

// New returns what negotiates for a cluster.
func New(o Options) *Proposals { return &Proposals{Options: o} }

// proposal is one as users see it.
type proposal = api.Envelope[api.KnownProposal]

// standsFor is for how long a proposal stands by default, and answerStands for how long its answer is on sale.
const standsFor, answerStands = 72 * time.Hour, 7 * 24 * time.Hour

// workers is how many proposals are looked at together: a seller that does not answer holds one of them up.
const workers = 8

// Control starts the controller of Proposals. It looks at all that the Ledger has first. A status leads nowhere, so that
// what it shows of a failure is no reason to try again.
func (p *Proposals) Control(m ctrl.Manager) error {
	p.Changed.Add(p.Namespace, "")
	return ctrl.NewControllerManagedBy(m).Named("proposal").
		For(&api.Proposal{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(p.Changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: turns.New(p.turnOf).NewQueue}).Complete(p)
}

// turnOf makes namespaces take turns, and the buyers of those that this cluster received.
func (p *Proposals) turnOf(at ctrl.Request) turns.Turn {
	turn := turns.Turn{Party: at.Namespace}
	var o api.Proposal
	if at.Namespace == p.Namespace {
		err := p.Client.Get(context.Background(), at.NamespacedName, &o) // of the cache
		if err != nil || o.Spec.Buyer != "" {
			turn.Party += "/" + o.Spec.Buyer // no namespace has that name
		}
	}
	return turn
}

// Reconcile sends a proposal of this cluster and reads its answer, or shows one that this cluster received and carries
// out the answer of an admin.
func (p *Proposals) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	if at.Name == "" {
		return ctrl.Result{}, p.lookAtReceived(ctx)
	}
	var object api.Proposal
	err := p.Client.Get(ctx, at.NamespacedName, &object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	isHere, isGone := at.Namespace == p.Namespace, apierrors.IsNotFound(err)
	if isHere {
		found, err := p.find(ctx, at.Name)
		if err != nil {
			return ctrl.Result{}, err
		}
		if len(found.buyers) == 1 && isGone {
			return ctrl.Result{}, p.create(ctx, at.Name, found)
		}
		if len(found.buyers) == 1 && object.DeletionTimestamp == nil {
			return p.showReceived(ctx, &object, found)
		}
	}
	switch {
	case isGone, object.DeletionTimestamp != nil:
		p.stands.remove(at.NamespacedName)
		return ctrl.Result{}, nil
	case isHere && object.Spec.Buyer != "": // the Ledger has forgotten what it received
		return ctrl.Result{}, p.delete(ctx, &object)
	}
	return p.follow(ctx, &object)
}

// delete deletes an object as it was seen.
func (p *Proposals) delete(ctx context.Context, o *api.Proposal) error {
	return kubeobject.Error(client.IgnoreNotFound(p.Client.Delete(ctx, o, client.Preconditions{UID: &o.UID})))
}

// sign returns a proposal as this cluster signs it. Of the same wish and time it is the same each time. Errors: Invalid.
func (p *Proposals) sign(wish api.ProposalCreate, issued time.Time) (signed api.SignedProposal, document string, err error) {
	within := standsFor
	if wish.Within != nil {
		within = wish.Within.Duration
	}
	if within < time.Minute || within > answerStands {
		return signed, "", api.Invalid("within", "a proposal cannot be open for %s", within).
			Fix("give a duration from 1m to %s", answerStands)
	}
	issued = issued.UTC().Truncate(time.Second)
	signed = api.SignedProposal{
		Protocol: api.Protocol, Buyer: p.Cluster, Seller: wish.Seller, Offer: wish.Offer, Plan: wish.Plan,
		ProposalTerms: wish.ProposalTerms, Issued: metav1.NewTime(issued), Expires: metav1.NewTime(issued.Add(within)),
	}
	if err := trust.CheckProposal(&signed); err != nil {
		return signed, "", err
	}
	document, err = p.Key.Sign(api.DocumentProposal, signed)
	return signed, document, err
}

// Sent returns what sellers say that this cluster proposed: those that are asked and answer in time. It leaves out what
// a seller says of one that this cluster did not sign, or sent to another seller.
func (p *Proposals) Sent(ctx context.Context, asked func(seller string) bool) (all []proposal) {
	for _, proposal := range p.Sellers.Proposals(ctx, asked) {
		signed, wrong := trust.Proposal(proposal.Payload.Document, p.Key.Public())
		if wrong != nil || signed.Buyer != p.Cluster || signed.Seller != proposal.Payload.Proposal.Seller ||
			proposal.Payload.Answer != "" && market.ValidCluster("answer", proposal.Payload.Answer) != nil {
			continue
		}
		proposal.ID, proposal.Payload.Proposal = trust.ProposalID(proposal.Payload.Document), *signed
		proposal.Payload.Digest = clusterkey.Digest(proposal.Payload.Document).String()
		proposal.Payload.Reason = trust.Text(proposal.Payload.Reason)
		all = append(all, proposal)
	}
	return all
}

// Received returns those that this cluster received.
func (p *Proposals) Received(ctx context.Context) (all []proposal, err error) {
	members, err := p.Ledger.Members(ctx)
	for _, buyer := range members {
		all = append(all, server.Proposals(buyer, p.Ledger.Now())...)
	}
	return all, err
}
