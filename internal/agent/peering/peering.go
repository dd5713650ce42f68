// Package peering makes and ends the peerings that reservations need.
//
// Each peering is a Peering object, one for each other cluster and role. [Peerings.Follow] creates
// it for a reservation. [Peerings.Reconcile] then brings it forward: what there is to do follows
// from the Ledger, how far it is follows from Liqo's objects, and the Peering shows both. What
// differs between lending and borrowing is a [Side], which the packages lending and borrowing
// implement. Several peerings are brought forward at once, so that a cluster that does not answer
// holds up no other. A [Messenger] carries the messages.
package peering

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
)

// Side is what differs between lending and borrowing. Its methods are called by one goroutine at a
// time for each other cluster.
type Side interface {
	// Open does what can be done to make the peering. received is the peer's newest message, nil if
	// there is none.
	Open(ctx context.Context, peer string, received *api.Handshake) (peering.Progress, error)
	// Connect brings the network forward that reservations ask for, and adds to p what to send.
	// Nil: none does.
	Connect(ctx context.Context, peer string, received *api.Handshake, p *peering.Progress) (*network.State, error)
	// Serve does what the peering is for, and returns what it waits for.
	Serve(ctx context.Context, peer string) (waits string, err error)
	// Suspension returns the condition Suspended of the consumer, nil where that is not known.
	Suspension(ctx context.Context, peer string) (*metav1.Condition, error)
	// Carried reports whether the peering itself runs through the network.
	Carried(ctx context.Context, peer string) (bool, error)
	// Disconnect takes the network down.
	Disconnect(ctx context.Context, peer string) (gone bool, err error)
	// Close takes the peering down, and reports whether nothing is left. force does not wait for
	// the other side.
	Close(ctx context.Context, peer string, force bool) (done bool, err error)
}

// Lender is the side of the peerings in which another cluster borrows.
type Lender interface {
	Side
	// Restrict does what the policy and the admin say about a consumer in this state.
	Restrict(ctx context.Context, consumer string, state api.MemberState) error
	// Effect says in words what Restrict does. Empty: nothing.
	Effect(state api.MemberState) string
	// Remains says in words what a consumer that leaves still has here.
	Remains(ctx context.Context, consumer string) (string, error)
}

// Messages are those of the handshake.
type Messages interface {
	Newest(peer string, role api.PeeringRole) *api.Handshake
	// Send sends p, which answers received.
	Send(ctx context.Context, peer string, role api.PeeringRole, received *api.Handshake, p peering.Progress) error
	Forget(peer string, role api.PeeringRole)
}

// Peers shows what is known of another cluster. Each function that it returns announces a change,
// once it is stored.
type Peers interface {
	State(cluster string, conditions []metav1.Condition) api.MemberState
	ShowMember(conditions *[]metav1.Condition, cluster, effect string,
		generation int64) (announce func(about runtime.Object))
	ShowSuspension(conditions *[]metav1.Condition, now *metav1.Condition,
		generation int64) (announce func(about runtime.Object))
}

// Graces are how long a peering lasts that no reservation uses.
type Graces struct {
	// Linger is how long it is kept. Negative: not at all.
	Linger time.Duration
	// Abandon is how long its end waits for the other side to take back its part.
	Abandon time.Duration
}

// Options say where Peerings are, and who does what they need.
type Options struct {
	Client    client.Client
	Namespace string // of Peerings
	// Market is that of the Ledger.
	Market    *exchange.Exchange
	Messages  Messages
	Peers     Peers
	Lending   Lender
	Borrowing Side
	Graces    Graces
	// Trigger is that of this controller.
	Trigger *kubeobject.Trigger
	// Clock is the machine's by default.
	Clock clock.PassiveClock
}

// Peerings makes and ends peerings. Several goroutines may use it.
type Peerings struct {
	options Options
	waits   *debounce.Debouncer[wait]

	// busy has the clusters for which a goroutine acts. The two directions between two clusters share
	// objects of Liqo, so that only one is brought forward at a time.
	busy sync.Map
	// deleted has the UIDs of Peerings that this process deleted, by name, while the cache may still have them.
	deleted sync.Map
}

// wait is what a peering waits for.
type wait struct {
	step, message string
	received      *api.Handshake
}

// New returns the controller of Peerings: see Control.
func New(o Options) *Peerings {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Peerings{options: o, waits: debounce.New[wait](o.Clock)}
}

func (p *Peerings) side(role api.PeeringRole) Side {
	if role == api.RoleProvider {
		return p.options.Borrowing
	}
	return p.options.Lending
}

// counterpart returns the other cluster of a reservation, and its role.
func counterpart(self string, r *market.Reservation) (string, api.PeeringRole) {
	if r.Provider == self {
		return r.Consumer, api.RoleConsumer
	}
	return r.Provider, api.RoleProvider
}

// Follow creates the Peering that a reservation needs, and looks at it again. Only admins can peer
// with a cluster whose agent is a prototype, which knows no handshake. Errors: the API server's.
func (p *Peerings) Follow(ctx context.Context, r *market.Reservation) error {
	peer, role := counterpart(p.options.Market.Self(), r)
	m, err := p.options.Market.Member(ctx, peer)
	if byHand := m != nil && m.Legacy; err != nil || byHand || peer == "" || r.State == api.Held {
		return err
	}
	object := &api.Peering{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.options.Namespace, Name: api.PeeringName(peer, role)},
		Spec:       api.PeeringSpec{Cluster: peer, Role: role},
	}
	if r.Bound() {
		err := p.options.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			err = p.options.Client.Create(ctx, object)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	p.options.Trigger.Add(object.Namespace, object.Name)
	return nil
}

// used reports whether a reservation needs a peering.
func (p *Peerings) used(ctx context.Context, spec api.PeeringSpec) (used bool, err error) {
	all, err := p.options.Market.Reservations(ctx)
	for _, r := range all {
		peer, role := counterpart(p.options.Market.Self(), r)
		used = used || peer == spec.Cluster && role == spec.Role && r.Bound()
	}
	return used, err
}

// createAgain creates a Peering that this process deleted, and that the cache still has: a cache is old for up to
// a minute after the API server was away. Without the object, nothing would take the peering down later.
// Errors: the API server's.
func (p *Peerings) createAgain(ctx context.Context, object *api.Peering) error {
	if uid, known := p.deleted.Load(object.Name); !known || uid != object.UID {
		return nil
	}
	err := p.options.Client.Create(ctx, &api.Peering{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}, Spec: object.Spec,
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	object.Status = api.PeeringStatus{}
	return err
}

// Reconcile brings one peering forward.
func (p *Peerings) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var object api.Peering
	if err := p.options.Client.Get(ctx, request.NamespacedName, &object); err != nil {
		if apierrors.IsNotFound(err) {
			p.deleted.Delete(request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	peer, role := object.Spec.Cluster, object.Spec.Role
	if object.Name != api.PeeringName(peer, role) || object.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if _, busy := p.busy.LoadOrStore(peer, true); busy {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	defer p.busy.Delete(peer)
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	if role == api.RoleConsumer {
		if err := p.options.Lending.Restrict(ctx, peer, p.options.Peers.State(peer, object.Status.Conditions)); err != nil {
			return p.failed(ctx, &object, err)
		}
	}
	used, err := p.used(ctx, object.Spec)
	if err != nil {
		return ctrl.Result{}, err
	}
	if used {
		if err := p.createAgain(ctx, &object); err != nil {
			return ctrl.Result{}, err
		}
		return p.keep(ctx, &object)
	}
	return p.leave(ctx, &object)
}
