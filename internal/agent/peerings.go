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
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
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
	letters   *letters
	standings *standings
	linger    time.Duration
	abandon   time.Duration // how long one waits for the other side to take back its part of a peering that is being closed
	log       *slog.Logger
	poke      chan event.GenericEvent
	network   *network.Network
	lend      *lend
	borrow    *borrow
	paces     map[string]pace
}

// side is what differs between lending and borrowing.
type side interface {
	// open does what can be done to make the peering, and what it is for, work.
	open(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error)
	// connect brings the network forward that reservations ask for, and puts into p what to say of it; nil if none does.
	connect(ctx context.Context, peer string, heard *api.Handshake, p *peering.Progress) (*network.Standing, error)
	// serve does what the peering is for; what it waits for is the message.
	serve(ctx context.Context, peer string) (message string, err error)
	// suspension is why whoever borrows gets nothing more; empty if it does, nil where that is not known.
	suspension(ctx context.Context, peer string) (*suspension, error)
	// close takes all of it down; done says that nothing is left. force does not wait for the other side.
	close(ctx context.Context, peer string, force bool) (done bool, err error)
}

const (
	quick = 3 * time.Millisecond   // how soon Liqo mostly has answered where no event tells of it,
	soon  = 300 * time.Millisecond // and how often one looks when it has not; what lasts less is not shown
	later = 15 * time.Second       // how often an open peering is looked at that no event was about
)

// doing is what a peering waits for.
type doing struct {
	step, message string
	heard         *api.Handshake
}

// pace is since when a peering waits for what it waits for, and how often it was looked at meanwhile.
type pace struct {
	doing
	began time.Time
	looks int
}

// next is when to look at a peering again that waits: soon and then later and later where no event tells of what it waits for.
// brief says that it has not waited for long.
func (p *peerings) next(name string, now doing, look bool) (wait time.Duration, brief bool) {
	last := p.paces[name]
	if last.doing != now {
		last = pace{doing: now, began: time.Now(), looks: -1}
	}
	last.looks++
	p.paces[name] = last
	if wait = soon; look {
		wait = min(quick<<min(last.looks, 10), soon)
	}
	return wait, time.Since(last.began) < soon
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

// run lets the peering of each reservation that changes in the Ledger be looked at, at once, until ctx ends: what else a change
// brings about, such as telling a broker, takes its time meanwhile.
func (p *peerings) run(ctx context.Context) error {
	w, err := p.market.Watch(ctx, p.cluster, "", 0)
	if err != nil {
		return err
	}
	defer w.Close()
	for changed := w.Snapshot; err == nil; changed, _, err = w.Next(ctx) {
		for _, r := range changed {
			p.follow(ctx, r)
		}
	}
	return nil // it ends with ctx, or with the Ledger, which says why itself
}

// follow lets the peering of a reservation be looked at again.
func (p *peerings) follow(ctx context.Context, r *market.Reservation) {
	peer, role := p.counterpart(r)
	if peer == "" {
		return
	}
	p.lend.places.tell()
	p.look(ctx, peer, role)
}

// look lets a peering be looked at again.
func (p *peerings) look(ctx context.Context, peer string, role api.PeeringRole) {
	object := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: api.PeeringName(peer, role)}}
	select {
	case p.poke <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// Reconcile brings one peering forward.
func (p *peerings) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	spec, need, err := p.need(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	var object api.Peering
	err = p.Get(ctx, request.NamespacedName, &object)
	if apierrors.IsNotFound(err) && need != unused {
		object.Namespace, object.Name, object.Spec = request.Namespace, request.Name, spec
		err = p.Create(ctx, &object)
	}
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) { // then its coming brings us here again
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if object.Name != api.PeeringName(object.Spec.Cluster, object.Spec.Role) || object.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if peer := object.Spec.Cluster; object.Spec.Role == api.RoleConsumer {
		if err := p.lend.restrict(ctx, peer, p.standings.of(peer, object.Status.Conditions)); err != nil {
			return p.failed(ctx, &object, err)
		}
	}
	switch {
	case need == unused:
		return p.leave(ctx, &object)
	case need == expected && !opened(&object):
		return p.prepare(ctx, &object)
	}
	return p.keep(ctx, &object)
}

// need is what reservations need of a peering.
type need int

const (
	unused   need = iota
	expected      // this cluster has signed one that is not bound yet
	needed        // one is bound
)

// need says which peering a name is that of, and what reservations need of it: nothing where only people can peer with the other
// cluster, whose agent is of the prototypes and knows no handshake.
func (p *peerings) need(ctx context.Context, name string) (spec api.PeeringSpec, most need, err error) {
	err = p.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(p.cluster, 0) {
			peer, role := p.counterpart(r)
			if peer == "" || api.PeeringName(peer, role) != name {
				continue
			}
			spec = api.PeeringSpec{Cluster: peer, Role: role}
			if m := s.Member(peer); m != nil && m.Legacy {
				continue
			}
			switch signed := role == api.RoleProvider && r.Assignment != "" || role == api.RoleConsumer && r.Acceptance != ""; {
			case r.Bound():
				most = needed
			case r.State == api.Held && signed:
				most = max(most, expected)
			}
		}
	})
	return spec, most, err
}

// opened says whether a peering is, or was, open, and not yet on the way to its end.
func opened(object *api.Peering) bool {
	return object.Status.State == api.PeeringOpen || object.Status.State == api.PeeringLingering
}

// prepare does what can be done before both are bound: the provider says its nonce, and the consumer has it signed. That grants
// nothing, and goes again when it comes to nothing.
func (p *peerings) prepare(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	var heard *api.Handshake
	if said := p.letters.last(peer, role); said != nil && said.Nonce != nil && role == api.RoleProvider {
		heard = &api.Handshake{Session: said.Session, HandshakeContent: api.HandshakeContent{Nonce: said.Nonce}}
	}
	progress, err := p.side(role).open(ctx, peer, heard)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	if role == api.RoleConsumer && p.letters.say(ctx, peer, role, progress) != nil {
		p.log.Debug("the nonce is said once both are bound", "consumer", peer)
	}
	wait, brief := p.next(object.Name, doing{step: progress.Step}, progress.Look)
	if brief {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, p.show(ctx, object, api.PeeringStatus{State: api.PeeringOpening, Step: progress.Step}, progress.ByHand)
}

// keep opens the peering, keeps it open, and lets it do what it is for.
func (p *peerings) keep(ctx context.Context, object *api.Peering) (ctrl.Result, error) {
	peer, role := object.Spec.Cluster, object.Spec.Role
	half := p.side(role)
	heard := p.letters.last(peer, role)
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
	if err := p.letters.say(ctx, peer, role, progress); err != nil {
		return p.failed(ctx, object, err)
	}
	next := api.PeeringStatus{State: api.PeeringOpening, Step: progress.Step, Conditions: withNetwork(object, standing)}
	if progress.Through && standing != nil && !standing.Ready {
		next.Message = standing.Reason + ": " + standing.Message
	}
	wait, brief := time.Duration(0), false
	if progress.Open {
		next.State = api.PeeringOpen
		if next.Message, err = half.serve(ctx, peer); err != nil {
			return p.failed(ctx, object, err)
		}
		if next.Message == "" {
			wait = later
		}
	}
	if wait == 0 {
		wait, brief = p.next(object.Name, doing{progress.Step, next.Message, heard}, progress.Look || progress.Open)
	}
	if progress.Repeat || standing != nil && !standing.Ready {
		wait = min(wait, awhile)
	}
	if brief { // to show it would only hold it up
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
	since, linger := time.Now(), p.linger
	if object.Status.State == "" || object.Status.State == api.PeeringOpening { // there is nothing to come back to
		linger = min(linger, 0)
	}
	if object.Status.State == api.PeeringLingering || object.Status.State == api.PeeringClosing {
		since = object.Status.Since.Time
	}
	lasts := time.Since(since)
	if left := linger - lasts; object.Status.State != api.PeeringClosing && (left > 0 || message != "" && lasts < linger+p.abandon) {
		wait := max(left, soon)
		if message != "" {
			wait, _ = p.next(object.Name, doing{message: message}, true)
		}
		return ctrl.Result{RequeueAfter: wait}, p.show(ctx, object, api.PeeringStatus{
			State: api.PeeringLingering, Message: message, Conditions: withNetwork(object, nil),
		}, false)
	}
	if err := p.show(ctx, object, api.PeeringStatus{State: api.PeeringClosing, Conditions: withNetwork(object, nil)}, false); err != nil {
		return ctrl.Result{}, err
	}
	done, err := half.close(ctx, peer, time.Since(object.Status.Since.Time) > p.abandon)
	if err != nil {
		return p.failed(ctx, object, err)
	}
	if done && carries { // the peering itself ran through it
		if _, err = p.network.Remove(ctx, peer, role, true); err != nil {
			return p.failed(ctx, object, err)
		}
	}
	if !done || !gone {
		wait, _ := p.next(object.Name, doing{step: string(api.PeeringClosing)}, true)
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	p.letters.forget(peer, role)
	delete(p.paces, object.Name)
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
	effect := goesOn
	if object.Spec.Role == api.RoleConsumer && !byHand {
		effect = p.lend.effect(p.standings.of(object.Spec.Cluster, next.Conditions))
	}
	tell := p.standings.into(&next.Conditions, object.Spec.Cluster, effect, object.Generation)
	suspension, err := p.side(object.Spec.Role).suspension(ctx, object.Spec.Cluster)
	if err != nil {
		return err
	}
	tellMore := p.standings.suspended(&next.Conditions, suspension, object.Generation)
	if equality.Semantic.DeepEqual(object.Status, next) {
		return nil
	}
	before := object.DeepCopy()
	object.Status = next
	if err := p.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	tell(object)
	tellMore(object)
	return nil
}
