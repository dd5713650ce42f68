package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokers"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/gate"
	"github.com/bourse-dev/bourse/internal/agent/requests"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/trust"
)

// home is the cluster's own objects, as the local listener serves them.
type home struct {
	client.Client
	cluster string
	// namespace is the agent's.
	namespace string
	member    *enrollment.Membership
	policy    *sharing.Policy
	ledger    *exchange.Exchange
	borrower  *requests.Borrower
	requests  *requests.Controller
	main      *brokersession.Connection
	broker    string
	doctor    *doctor
	gate      *gate.Gate
	brokers   *brokers.Brokers
}

var _ server.Home = (*home)(nil)

// Status says who the cluster is and how it stands with its broker.
func (h *home) Status(context.Context) (api.AgentStatus, error) {
	connection := h.main.State()
	s := api.AgentStatus{
		Cluster: h.cluster, Fingerprint: h.member.Key().Public().Fingerprint().String(), Broker: h.broker,
		Connected: connection.Connected, LastHeard: metav1.NewTime(connection.Last), Sharing: h.policy.Sharing() != nil,
	}
	if connection.Err != nil {
		s.Problem = connection.Err.Error()
	}
	return s, nil
}

// MakeRequest makes a ResourceRequest.
func (h *home) MakeRequest(ctx context.Context, r api.RequestCreate) (api.Envelope[api.RequestStatus], error) {
	if err := cmp.Or(h.borrower.Able(r.Request), r.Offload.Check(h.cluster)); err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: r.Request, Offload: r.Offload, Broker: r.Broker}}
	object.Namespace, object.Name = r.Namespace, r.Name
	if object.Namespace == "" {
		object.Namespace = "default"
	}
	if object.Name == "" {
		object.GenerateName = "request-"
	}
	if err := h.Create(ctx, object); err != nil {
		return api.Envelope[api.RequestStatus]{}, kubeobject.Error(err)
	}
	return envelope(object), h.appears(ctx, object)
}

// Asks is what a request would ask for.
func (h *home) Asks(ctx context.Context, r api.RequestCreate) (_ api.Request, err error) {
	if err := r.Offload.Check(h.cluster); err != nil {
		return r.Request, err
	}
	object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: r.Request, Offload: r.Offload}}
	object.Namespace = cmp.Or(r.Namespace, metav1.NamespaceDefault)
	r.Request.StickTo, err = h.requests.StickTo(ctx, object)
	return r.Request, err
}

// appears waits until our own cache shows an object: whoever made it looks at it next.
func (h *home) appears(ctx context.Context, object *api.ResourceRequest) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		err := h.Get(ctx, client.ObjectKeyFromObject(object), &api.ResourceRequest{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

func envelope(o *api.ResourceRequest) api.Envelope[api.RequestStatus] {
	return api.Envelope[api.RequestStatus]{
		ID: o.Namespace + "/" + o.Name, Revision: uint64(o.Generation), Payload: api.RequestStatus{Request: o.Spec.Request, Offload: o.Spec.Offload, Status: o.Status},
	}
}

func (h *home) get(ctx context.Context, namespace, name string) (*api.ResourceRequest, error) {
	object := &api.ResourceRequest{}
	if err := h.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, kubeobject.Error(err)
	}
	return object, nil
}

// Request reads one.
func (h *home) Request(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error) {
	object, err := h.get(ctx, namespace, name)
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	out, i := envelope(object), &api.ReservationInstruction{}
	if object.Status.Reservation != "" {
		err = h.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object.Status.Reservation}, i)
	}
	if client.IgnoreNotFound(err) != nil {
		return out, kubeobject.Error(err)
	}
	out.Payload.Steps = i.Status.Conditions
	return out, nil
}

// Requests reads all.
func (h *home) Requests(ctx context.Context) ([]api.Envelope[api.RequestStatus], error) {
	var list api.ResourceRequestList
	if err := h.List(ctx, &list); err != nil {
		return nil, kubeobject.Error(err)
	}
	out := make([]api.Envelope[api.RequestStatus], len(list.Items))
	for i := range list.Items {
		out[i] = envelope(&list.Items[i])
	}
	return out, nil
}

// ConfirmRequest confirms a held one.
func (h *home) ConfirmRequest(ctx context.Context, namespace, name string) (api.Envelope[api.RequestStatus], error) {
	object, err := h.get(ctx, namespace, name)
	if err != nil {
		return api.Envelope[api.RequestStatus]{}, err
	}
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, requests.ConfirmAnnotation, "true")
	if err := h.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return api.Envelope[api.RequestStatus]{}, kubeobject.Error(err)
	}
	return envelope(object), nil
}

// ChangeReservation edits the request behind a reservation; what becomes of it, its condition UpToDate says.
func (h *home) ChangeReservation(ctx context.Context, id string, change api.ReservationChange) (api.Envelope[api.RequestStatus], error) {
	none := api.Envelope[api.RequestStatus]{}
	var ours *market.Reservation
	if err := h.ledger.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err != nil {
		return none, err
	}
	switch {
	case ours == nil || ours.Object == nil:
		return none, api.Errorf(api.CodeNotFound, "no request of this cluster made reservation %.80q", id).Fix("see: bourse reservations")
	case !ours.Bound():
		return none, api.Errorf(api.CodeConflict, "reservation %s is %s: only a bound reservation can change", id, ours.State).Fix("wait until it is Reserved, or make a new reservation")
	case change.For != nil && change.For.Duration <= 0:
		return none, api.Invalid("for", "%s is not a time to come", change.For.Duration).Fix("release it instead: bourse release %s", id)
	}
	if len(ours.Group) > 0 {
		return none, api.Errorf(api.CodeConflict, "reservation %s is a part of a split request, which cannot change", id).Fix("make another reservation for more, or release it and make a new one")
	}
	var object *api.ResourceRequest
	err := h.edit(ctx, func() (err error) {
		if object, err = h.get(ctx, ours.Object.Namespace, ours.Object.Name); err != nil {
			return err
		}
		if string(object.UID) != ours.Object.UID {
			return api.Errorf(api.CodeConflict, "reservation %s ends: its request was replaced by another of the same name", id).Fix("see: bourse reservations")
		}
		before := object.DeepCopy()
		if err := h.resized(object, change, ours); err != nil {
			return err
		}
		return h.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return none, kubeobject.Error(err)
	}
	return envelope(object), nil
}

// resized makes a request what it is to be. Errors: Invalid.
func (h *home) resized(object *api.ResourceRequest, change api.ReservationChange, ours *market.Reservation) error {
	switch bought := object.Spec.Purchase; {
	case bought != nil && len(change.Resources) > 0:
		return api.Invalid("resources", "reservation %s is of a plan", ours.ID).Fix("say how many units it is to have: bourse resize %s --units N", ours.ID)
	case bought == nil && change.Units > 0:
		return api.Invalid("units", "reservation %s is of no plan", ours.ID).Fix("say which resources it is to have")
	case bought != nil && change.Units > 0:
		bought.Units = change.Units
	}
	for name, amount := range change.Resources {
		object.Spec.Resources[name] = amount
		if amount.IsZero() {
			delete(object.Spec.Resources, name)
		}
	}
	if change.For != nil {
		object.Spec.Duration = &metav1.Duration{Duration: (h.ledger.Now().Go().Sub(ours.Created.Go()) + change.For.Duration).Round(time.Second)}
	}
	if object.Spec.Purchase != nil {
		return nil
	}
	_, err := market.Need("resources", object.Spec.Resources)
	return err
}

// ReleaseReservation deletes the request behind a reservation; one that the Ledger has lost with its request ends all the same.
func (h *home) ReleaseReservation(ctx context.Context, id string) error {
	var ours *market.Reservation
	if err := h.ledger.Read(ctx, func(s *market.State) { ours = s.Reservation(id) }); err != nil {
		return err
	}
	if ours == nil || ours.Object == nil {
		return h.borrower.Disown(ctx, id)
	}
	object := &api.ResourceRequest{}
	object.Namespace, object.Name = ours.Object.Namespace, ours.Object.Name
	uid := types.UID(ours.Object.UID)
	err := h.Delete(ctx, object, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) {
		return nil // it is being released already
	}
	if err != nil {
		return kubeobject.Error(err)
	}
	return nil
}

// Peers reads all.
func (h *home) Peers(ctx context.Context) ([]api.Envelope[api.KnownPeer], error) {
	var list api.PeerList
	if err := h.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	out := make([]api.Envelope[api.KnownPeer], len(list.Items))
	for i := range list.Items {
		out[i] = knownPeer(&list.Items[i])
	}
	return out, nil
}

func knownPeer(p *api.Peer) api.Envelope[api.KnownPeer] {
	return api.Envelope[api.KnownPeer]{ID: p.Name, Revision: uint64(p.Generation), Payload: api.KnownPeer{Spec: p.Spec, Status: p.Status}}
}

// Trust writes the admin's word into the cluster's Peer.
func (h *home) Trust(ctx context.Context, cluster string, said api.PeerSpec) (api.Envelope[api.KnownPeer], error) {
	if _, err := identity.ParseFingerprint(said.Fingerprint); err != nil && said.Fingerprint != "" {
		return api.Envelope[api.KnownPeer]{}, api.Invalid("fingerprint", "%s", err).Fix("copy the fingerprint that `bourse status` prints at %s", cluster)
	}
	return h.say(ctx, cluster, func(s *api.PeerSpec) { s.Fingerprint = said.Fingerprint })
}

// Suspend writes it into the cluster's Peer.
func (h *home) Suspend(ctx context.Context, cluster string, s api.Suspension) (api.Envelope[api.KnownPeer], error) {
	return h.say(ctx, cluster, func(spec *api.PeerSpec) { spec.Suspend, spec.SuspendReason = true, s.Reason })
}

// Resume takes it back.
func (h *home) Resume(ctx context.Context, cluster string) (api.Envelope[api.KnownPeer], error) {
	return h.say(ctx, cluster, func(spec *api.PeerSpec) { spec.Suspend, spec.SuspendReason = false, "" })
}

// say changes what the admin says of a cluster in its Peer.
func (h *home) say(ctx context.Context, cluster string, change func(*api.PeerSpec)) (api.Envelope[api.KnownPeer], error) {
	none := api.Envelope[api.KnownPeer]{}
	if err := market.ValidCluster("cluster", cluster); err != nil {
		return none, err
	}
	object := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: cluster}}
	if err := h.put(ctx, object, func() { change(&object.Spec) }); err != nil {
		return none, err
	}
	return knownPeer(object), nil
}

// put changes an object, or makes it. change may be called more than once.
func (h *home) put(ctx context.Context, object client.Object, change func()) error {
	err := h.edit(ctx, func() error {
		err := h.Get(ctx, client.ObjectKeyFromObject(object), object)
		before, _ := object.DeepCopyObject().(client.Object)
		change()
		if apierrors.IsNotFound(err) {
			return h.Create(ctx, object)
		} else if err != nil {
			return err
		}
		return h.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return kubeobject.Error(err)
	}
	return nil
}

// edit writes an object under the version that the cache has, and again as soon as the cache knows a newer one: the edit before
// this one may not be in it yet.
func (h *home) edit(ctx context.Context, write func() error) (err error) {
	stale := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
		err = write()
		return !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err), nil
	})
	return cmp.Or(err, stale)
}

// RotateKey answers before the agent starts again.
func (h *home) RotateKey(ctx context.Context, r api.KeyRotation) (api.KeyRotated, error) {
	to, err := h.member.Rotate(ctx, r.From)
	return api.KeyRotated{Fingerprint: to}, err
}

// Diagnose looks for whatever is wrong.
func (h *home) Diagnose(ctx context.Context) api.Diagnosis {
	return api.Diagnosis{Problems: h.doctor.diagnose(ctx)}
}

// Audit adds to what Liqo and Kubernetes say what the Ledger says.
func (h *home) Audit(ctx context.Context, cluster string) (*api.Audit, error) {
	if err := market.ValidCluster("cluster", cluster); err != nil {
		return nil, err
	}
	audit := &api.Audit{Cluster: cluster}
	if h.doctor.here != nil {
		var err error
		if audit, err = posture.Audit(ctx, h.doctor.inspection.Reader, cluster); err != nil {
			return nil, kubeobject.Error(err)
		}
	}
	audit.Reservations = map[string]api.Resources{}
	err := h.ledger.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(h.cluster, 0) {
			if r.Provider == h.cluster && r.Consumer == cluster && r.State.Counts() {
				audit.Reservations[r.ID] = r.Size.Resources()
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if key, err := trust.Key(ctx, h.ledger, cluster); err == nil {
		audit.Fingerprint = key.Fingerprint().String()
	}
	return audit, nil
}

// Evict takes back what the gate lends to a cluster.
func (h *home) Evict(ctx context.Context, cluster string) (api.Eviction, error) {
	ended, err := h.gate.Revoke(ctx, cluster)
	return api.Eviction{Reservations: ended}, err
}

// Brokers reads those that this cluster deals with, the main one first.
func (h *home) Brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return h.brokers.List(ctx)
}

// PutBroker writes the admin's word into the Broker of a name. A token that is there stays there where none is given.
func (h *home) PutBroker(ctx context.Context, name string, spec api.BrokerSpec) (api.Envelope[api.KnownBroker], error) {
	none := api.Envelope[api.KnownBroker]{}
	if err := h.brokers.Check(name, spec); err != nil {
		return none, err
	}
	object := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}, Spec: spec}
	said := map[string]any{"disabled": spec.Disabled, "url": nil} // all of it, because our cache may lag behind what was said before
	if spec.URL != "" {
		said["url"] = spec.URL
	}
	if spec.Join != "" {
		said["join"] = spec.Join
	}
	patch, err := json.Marshal(map[string]any{"spec": said})
	if err != nil {
		return none, err
	}
	if err = h.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); apierrors.IsNotFound(err) {
		if spec.Join == "" && name != api.MainBroker {
			return none, api.Invalid("join", "there is no broker %s here, and no token to join one", name).Fix("ask the broker's operator for one (bourse broker token create), and give it: bourse brokers add %s --join TOKEN", name)
		}
		object.Spec = spec
		err = h.Create(ctx, object)
	}
	if err != nil {
		return none, kubeobject.Error(err)
	}
	out := api.Envelope[api.KnownBroker]{ID: name, Revision: uint64(object.Generation), Payload: api.KnownBroker{Spec: object.Spec, Status: object.Status}}
	out.Payload.Spec.Join = ""
	return out, nil
}

// DeleteBroker deletes one.
func (h *home) DeleteBroker(ctx context.Context, name string) error {
	if name == api.MainBroker {
		return api.Invalid("name", "%s is the broker that the agent was started with", name).Fix("disable it: bourse brokers disable %s", name)
	}
	if err := h.Delete(ctx, &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}); err != nil {
		return kubeobject.Error(err)
	}
	return nil
}
