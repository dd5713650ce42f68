// Package peers knows the other clusters: which keys of theirs are trusted, whether the broker still has
// them as members, and which ones the admin has suspended.
//
// Start at [Peers.Reconcile]. It brings what the admin says in a Peer object into the Ledger, and
// shows in its status what the Ledger has pinned. [Peers.Demand] is what the rest of the agent
// checks keys by. [Peers.RecordState] takes in what the broker says of a member. Nobody signs that:
// it is shown ([Peers.ShowMember]), and acted on only as far as the SharingPolicy allows (package
// lending).
package peers

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// maxClusters bounds what is remembered of clusters for which there need not be a Peer. Beyond it all is
// forgotten, and learned again.
const maxClusters = 10_000

// Options say where the Peer objects are.
type Options struct {
	Client client.Client
	// Namespace is that of the Peers.
	Namespace string
	// Market is that of the Ledger.
	Market *exchange.Exchange
	Events events.EventRecorder
	// Sharing returns the SharingPolicy that is in force, nil if none is.
	Sharing func() *api.Sharing
	// Roots are the keys whose endorsements confirm the keys of others.
	Roots []clusterkey.PublicKey
	// Trigger is that of this controller.
	Trigger *kubeobject.Trigger
	// StateChanged is called for each role of a member once the broker says something new of it.
	StateChanged func(cluster string, role api.PeeringRole)
}

// Peers knows the other clusters. Several goroutines may use it.
type Peers struct {
	options Options

	mu     sync.Mutex
	cards  map[string]card            // by cluster, how its last card fared
	states map[string]api.MemberState // by cluster, what the broker last said since the agent started
	failed map[string]error           // by cluster, why its connector could not be called
}

// card is the last card of a cluster: why it is not believed, nil if it is, and the fingerprint on it.
type card struct {
	refused     error
	fingerprint string
}

// ParseRoots reads keys as `bourse root create` printed them. Errors: Invalid with the flag.
func ParseRoots(texts []string) (roots []clusterkey.PublicKey, err error) {
	for _, text := range texts {
		root, err := clusterkey.ParsePublicKey(text)
		if err != nil {
			return nil, api.Invalid("--trust-root", "%s", err).Fix("give what `bourse root create` printed")
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// New returns what knows no cluster yet: see ReadAll.
func New(o Options) *Peers {
	return &Peers{options: o, cards: map[string]card{}, states: map[string]api.MemberState{}, failed: map[string]error{}}
}

// Demand returns what the SharingPolicy demands of keys. Each card that is met with it is shown on its Peer.
func (p *Peers) Demand() trust.Demand {
	trusts := func(level api.TrustLevel) func() bool {
		return func() bool {
			s := p.options.Sharing()
			return s != nil && s.Trust == level
		}
	}
	return trust.Demand{Pinned: trusts(api.TrustPinned), Legacy: trusts(api.TrustLegacy),
		Roots: p.options.Roots, Met: p.recordCard}
}

// recordCard records the check of a card, and shows its Peer again if the result is new.
func (p *Peers) recordCard(cluster string, shown clusterkey.PublicKey, err error) {
	now := card{err, shown.Fingerprint().String()}
	p.mu.Lock()
	before, known := p.cards[cluster]
	if !known && len(p.cards) >= maxClusters {
		clear(p.cards)
	}
	p.cards[cluster] = now
	p.mu.Unlock()
	if !known || before.fingerprint != now.fingerprint || api.CodeOf(before.refused) != api.CodeOf(err) {
		p.options.Trigger.Add(p.options.Namespace, cluster)
	}
}

// RecordContact remembers why the connector of a cluster could not be called. A nil err: it was. Its Peer shows
// that, if nobody has met the cluster yet or it has another key now.
func (p *Peers) RecordContact(cluster string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.failed[cluster]
	delete(p.failed, cluster)
	if err != nil && len(p.failed) < maxClusters {
		p.failed[cluster] = err
	}
	if fmt.Sprint(p.failed[cluster]) != fmt.Sprint(before) {
		p.options.Trigger.Add(p.options.Namespace, cluster)
	}
}

// ReadAll takes in all Peers, and shows each cluster that the Ledger knows. It is for the start, before
// the controller runs. Errors: the API server's; the market's.
func (p *Peers) ReadAll(ctx context.Context) error {
	var list api.PeerList
	if err := p.options.Client.List(ctx, &list, client.InNamespace(p.options.Namespace)); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, peer := range list.Items {
		names[peer.Name] = true
	}
	members, err := p.options.Market.Members(ctx)
	for _, m := range members {
		if m.Cluster != p.options.Market.Self() {
			names[m.Cluster] = true
		}
	}
	for name := range names {
		if err != nil {
			return err
		}
		_, err = p.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: p.options.Namespace, Name: name}})
	}
	return err
}

// Control starts the controller of Peers.
func (p *Peers) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("peer").For(&api.Peer{}).
		WatchesRawSource(p.options.Trigger).Complete(p)
}

// Reconcile brings one Peer into the Ledger, and shows what the Ledger knows of the cluster. It creates a
// Peer for a cluster whose key is pinned.
func (p *Peers) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	err := p.options.Client.Get(ctx, request.NamespacedName, object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	member, invalid, failed := p.record(ctx, request.Name, &object.Spec)
	if failed != nil {
		return ctrl.Result{}, failed
	}
	if apierrors.IsNotFound(err) {
		if member == nil || member.Key == "" {
			return ctrl.Result{}, nil
		}
		if err := p.options.Client.Create(ctx, object); err != nil {
			return ctrl.Result{}, client.IgnoreAlreadyExists(err)
		}
	}
	suspension := suspensionOf(&object.Spec, request.Name)
	next := object.Status.DeepCopy()
	p.showKey(next, request.Name, member, invalid, object.Generation)
	const effect = existingStay + ", where the SharingPolicy (onRevoke) does not say otherwise"
	announce := p.ShowMember(&next.Conditions, request.Name, effect, object.Generation)
	announceSuspension := p.ShowSuspension(&next.Conditions, &suspension, object.Generation)
	err = kubeobject.ReplaceStatus(ctx, p.options.Client, object, &object.Status, *next)
	if apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // the copy is old, and may lack an answer: the newer one leads here again
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	announce(object)
	announceSuspension(object)
	return ctrl.Result{}, nil
}

// record makes the Ledger know what a Peer says, the suspension before anything reads that. It returns the
// cluster as the Ledger knows it, and why the Ledger does not accept the fingerprint.
func (p *Peers) record(ctx context.Context, cluster string,
	spec *api.PeerSpec) (member *market.Member, invalid, failed error) {
	out, invalid := p.options.Market.Do(ctx, market.Trust{Cluster: cluster,
		Fingerprint: spec.Fingerprint, Address: spec.Address})
	if invalid != nil && api.CodeOf(invalid) != api.CodeInvalid {
		return nil, nil, invalid
	}
	suspended, refused := p.options.Market.Do(ctx, market.Suspend{Cluster: cluster, Why: suspendReason(spec)})
	switch {
	case refused == nil:
		return suspended.Member, invalid, nil
	case api.CodeOf(refused) != api.CodeInvalid:
		return nil, nil, refused
	}
	return out.Member, invalid, nil
}
