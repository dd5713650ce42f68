package agent

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/handshake"
	"github.com/bourse-dev/bourse/internal/agent/peers"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
)

// peerings makes and ends the peerings that reservations need. What is there to do follows from the Ledger; how far it
// is, from Liqo's objects; a Peering shows both.
type peerings struct {
	client.Client
	cluster   string
	namespace string
	market    *exchange.Exchange
	messenger *handshake.Messenger
	peers     *peers.Peers
	linger    time.Duration
	abandon   time.Duration // how long one waits for the other side to take back its part of a peering that is being closed
	log       *slog.Logger
	changed   *kubeobject.Trigger
	network   *network.Network
	lend      *lend
	borrow    *borrow
	waits     *debounce.Debouncer[doing]
}

// side is what differs between lending and borrowing.
type side interface {
	// open does what can be done to make the peering, and what it is for, work.
	open(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error)
	// connect brings the network forward that reservations ask for, and puts into p what to say of it; nil if none does.
	connect(ctx context.Context, peer string, heard *api.Handshake, p *peering.Progress) (*network.Standing, error)
	// serve does what the peering is for; what it waits for is the message.
	serve(ctx context.Context, peer string) (message string, err error)
	// suspension returns the condition Suspended of the consumer, nil where that is not known.
	suspension(ctx context.Context, peer string) (*metav1.Condition, error)
	// close takes all of it down; done says that nothing is left. force does not wait for the other side.
	close(ctx context.Context, peer string, force bool) (done bool, err error)
}

const (
	quick = 3 * time.Millisecond   // how soon Liqo mostly has taken back what it copied,
	soon  = 300 * time.Millisecond // and how often one looks at what is on its way, for what no event tells of
	later = 15 * time.Second       // how often an open peering is looked at that no event was about
)

// doing is what a peering waits for.
type doing struct {
	step, message string
	heard         *api.Handshake
}

// next is when to look again at a peering that ends, of which no event tells: the longer it has waited, the later.
func (p *peerings) next(name string, now doing) time.Duration {
	return min(max(p.waits.Age(name, now), quick), soon)
}

func (p *peerings) side(role api.PeeringRole) side {
	if role == api.RoleProvider {
		return p.borrow
	}
	return p.lend
}

// counterpart is the other cluster of a reservation, and what it is to this one.
func (p *peerings) counterpart(r *market.Reservation) (string, api.PeeringRole) {
	if r.Provider == p.cluster {
		return r.Consumer, api.RoleConsumer
	}
	return r.Provider, api.RoleProvider
}

// follow makes sure that a reservation has the Peering that it needs, and that this looks at it again.
func (p *peerings) follow(ctx context.Context, r *market.Reservation) error {
	peer, role := p.counterpart(r)
	if peer == "" || r.State == api.Held {
		return nil
	}
	if byHand, err := p.byHand(ctx, peer); err != nil || byHand {
		return err
	}
	object := &api.Peering{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: api.PeeringName(peer, role)},
		Spec:       api.PeeringSpec{Cluster: peer, Role: role},
	}
	if r.Bound() { // it needs a peering
		err := p.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			err = p.Create(ctx, object)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	p.changed.Add(p.namespace, api.PeeringName(peer, role))
	return nil
}

// byHand says whether only people can peer with a cluster: its agent is of the prototypes and knows no handshake.
func (p *peerings) byHand(ctx context.Context, peer string) (is bool, err error) {
	err = p.market.Read(ctx, func(s *market.State) {
		m := s.Member(peer)
		is = m != nil && m.Legacy
	})
	return is, err
}

// Reconcile brings one peering forward.
func (p *peerings) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object api.Peering
	if err := p.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.Name != api.PeeringName(object.Spec.Cluster, object.Spec.Role) || object.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if peer := object.Spec.Cluster; object.Spec.Role == api.RoleConsumer {
		if err := p.lend.restrict(ctx, peer, p.peers.State(peer, object.Status.Conditions)); err != nil {
			return p.failed(ctx, &object, err)
		}
	}
	used, err := p.used(ctx, object.Spec)
	if err != nil {
		return ctrl.Result{}, err
	}
	if used {
		return p.keep(ctx, &object)
	}
	return p.leave(ctx, &object)
}

// used says whether a reservation needs the peering.
func (p *peerings) used(ctx context.Context, spec api.PeeringSpec) (used bool, err error) {
	err = p.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(p.cluster, 0) {
			peer, role := p.counterpart(r)
			used = used || peer == spec.Cluster && role == spec.Role && r.Bound()
		}
	})
	return used, err
}

// keep opens the peering, keeps it open, and lets it do what it is for.
func (p *peerings) keep(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	half := p.side(role)
	heard := p.messenger.Newest(peer, role)
	progress, err := half.open(ctx, peer, heard)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	var standing *network.Standing
	if progress.Open || progress.Through {
		if standing, err = half.connect(ctx, peer, heard, &progress); err != nil {
			return p.failed(ctx, object, err)
		}
	}
	if err := p.messenger.Send(ctx, peer, role, progress); err != nil {
		return p.failed(ctx, object, err)
	}
	next := api.PeeringStatus{State: api.PeeringOpening, Step: progress.Step, Conditions: withNetwork(object, standing)}
	if progress.Through && standing != nil && !standing.Ready {
		next.Message = standing.Reason + ": " + standing.Message
	}
	wait := soon
	if progress.Open {
		next.State = api.PeeringOpen
		if next.Message, err = half.serve(ctx, peer); err != nil {
			return p.failed(ctx, object, err)
		}
		if next.Message == "" {
			wait = later
		}
	}
	passes := wait == soon && p.waits.Passes(object.Name, doing{progress.Step, next.Message, heard})
	if progress.Repeat || standing != nil && !standing.Ready {
		wait = min(wait, awhile)
	}
	if passes {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, p.show(ctx, object, next, progress.ByHand)
}

// failed shows why a peering does not come forward, and tries again.
func (p *peerings) failed(ctx context.Context, object *api.Peering, cause error) (ctrl.Result, error) {
	next := *object.Status.DeepCopy()
	next.Message = cause.Error()
	if next.State == "" {
		next.State = api.PeeringOpening
	}
	if err := p.show(ctx, object, next, false); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, cause
}

// leave keeps an unused peering for a while, takes what it was for down at once, and then all of it.
func (p *peerings) leave(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	half := p.side(role)
	message, err := half.serve(ctx, peer)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	gone := false
	carries, err := p.network.Carries(ctx, peer, role)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	if !carries && (message == "" || object.Status.State == api.PeeringClosing) { // what runs through it goes first
		if gone, err = p.network.Remove(ctx, peer, role, true); err != nil {
			return p.failed(ctx, object, err)
		}
		if !gone {
			message = "its network is being removed"
		}
	}
	since := time.Now()
	if object.Status.State == api.PeeringLingering || object.Status.State == api.PeeringClosing {
		since = object.Status.Since.Time
	}
	lasts := time.Since(since)
	if left := p.linger - lasts; object.Status.State != api.PeeringClosing && (left > 0 || message != "" && lasts < p.linger+p.abandon) {
		wait := max(left, soon)
		if message != "" {
			wait = p.next(object.Name, doing{message: message})
		}
		return ctrl.Result{RequeueAfter: wait}, p.show(ctx, object, api.PeeringStatus{
			State: api.PeeringLingering, Message: message, Conditions: withNetwork(object, nil),
		}, false)
	}
	force := object.Status.State == api.PeeringClosing && lasts > p.abandon
	if message = ""; force && role == api.RoleConsumer { // it takes long: say why
		if message, err = p.lend.remains(ctx, peer); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := p.show(ctx, object, api.PeeringStatus{State: api.PeeringClosing, Message: message, Conditions: withNetwork(object, nil)}, false); err != nil {
		return ctrl.Result{}, err
	}
	done, err := half.close(ctx, peer, force)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	if done && carries { // the peering itself ran through it
		if _, err = p.network.Remove(ctx, peer, role, true); err != nil {
			return p.failed(ctx, object, err)
		}
	}
	if !done || !gone {
		return ctrl.Result{RequeueAfter: p.next(object.Name, doing{step: string(api.PeeringClosing)})}, nil
	}
	p.messenger.Forget(peer, role)
	p.waits.Forget(object.Name)
	return ctrl.Result{}, client.IgnoreNotFound(p.Delete(ctx, object))
}

// show writes the status, if it changed.
func (p *peerings) show(ctx context.Context, object *api.Peering, next api.PeeringStatus, byHand bool) error {
	next.Since = object.Status.Since
	if next.Conditions == nil {
		next.Conditions = object.Status.DeepCopy().Conditions
	}
	if next.State != object.Status.State || next.Since == nil {
		now := metav1.Now()
		next.Since = &now
	}
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: string(next.State), Message: next.Message, ObservedGeneration: object.Generation}
	if next.State == api.PeeringOpen {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&next.Conditions, ready)
	if byHand {
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{Type: api.ConditionMixedPeering, Status: metav1.ConditionTrue, Reason: "MadeByHand",
			Message: "this peering was made by hand: it is used and never written", ObservedGeneration: object.Generation})
	} else {
		meta.RemoveStatusCondition(&next.Conditions, api.ConditionMixedPeering)
	}
	effect := ""
	if object.Spec.Role == api.RoleConsumer && !byHand {
		effect = p.lend.effect(p.peers.State(object.Spec.Cluster, next.Conditions))
	}
	tell := p.peers.ShowMember(&next.Conditions, object.Spec.Cluster, effect, object.Generation)
	suspension, err := p.side(object.Spec.Role).suspension(ctx, object.Spec.Cluster)
	if err != nil {
		return err
	}
	tellMore := p.peers.ShowSuspension(&next.Conditions, suspension, object.Generation)
	if equality.Semantic.DeepEqual(object.Status, next) {
		return nil
	}
	object.Status = next
	if err := kubeobject.SoleStatus(p.Client).Apply(ctx, object); err != nil {
		return err
	}
	tell(object)
	tellMore(object)
	return nil
}
