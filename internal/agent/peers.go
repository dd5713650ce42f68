package agent

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// peers takes in what the admin says of other clusters' keys, and shows what was pinned.
type peers struct {
	client.Client
	namespace string
	market    *exchange.Exchange
	changed   *kubeobject.Trigger
	standings *standings

	mu    sync.Mutex
	wrong map[string]wrong // by cluster, how the card that was last met fared
}

// wrong is why a card is not believed, nil if it is, and the fingerprint that it shows.
type wrong struct {
	cause error
	shown string
}

// demand is what the SharingPolicy demands of keys; what is met is shown.
func (p *peers) demand(sharing *policy) trust.Demand {
	return trust.Demand{
		Pinned: func() bool {
			s := sharing.current.Load()
			return s != nil && s.Trust == api.TrustPinned
		},
		Legacy: func() bool {
			s := sharing.current.Load()
			return s != nil && s.Trust == api.TrustLegacy
		},
		Met: func(cluster string, shown clusterkey.PublicKey, err error) {
			p.mu.Lock()
			was, before := p.wrong[cluster]
			now := wrong{err, shown.Fingerprint().String()}
			p.wrong[cluster] = now
			p.mu.Unlock()
			if !before || was.shown != now.shown || api.CodeOf(was.cause) != api.CodeOf(err) {
				p.changed.Add(p.namespace, cluster)
			}
		},
	}
}

// read takes in all that the admin has said, and shows again whom this cluster has met.
func (p *peers) read(ctx context.Context) error {
	var list api.PeerList
	if err := p.List(ctx, &list, client.InNamespace(p.namespace)); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, peer := range list.Items {
		names[peer.Name] = true
	}
	err := p.market.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if m.Cluster != s.Self {
				names[m.Cluster] = true
			}
		}
	})
	for name := range names {
		if err != nil {
			return err
		}
		_, err = p.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: p.namespace, Name: name}})
	}
	return err
}

// Reconcile makes the Ledger know what the object says, and the object show what the Ledger knows.
func (p *peers) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	err := p.Get(ctx, request.NamespacedName, object)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	out, invalid := p.market.Do(ctx, market.Trust{Cluster: request.Name, Fingerprint: object.Spec.Fingerprint})
	if invalid != nil && api.CodeOf(invalid) != api.CodeInvalid {
		return ctrl.Result{}, invalid
	}
	suspension := suspensionBy(&object.Spec, request.Name)
	suspended, refused := p.market.Do(ctx, market.Suspend{Cluster: request.Name, Why: suspension.why}) // before anybody reads that it is
	switch {
	case refused == nil:
		out.Member = suspended.Member
	case api.CodeOf(refused) != api.CodeInvalid:
		return ctrl.Result{}, refused
	}
	if apierrors.IsNotFound(err) {
		if out.Member == nil || out.Member.Key == "" {
			return ctrl.Result{}, nil
		}
		if err := p.Create(ctx, object); err != nil {
			return ctrl.Result{}, client.IgnoreAlreadyExists(err)
		}
	}
	next := object.Status.DeepCopy()
	p.describe(next, request.Name, out.Member, invalid, object.Generation)
	tell := p.standings.into(&next.Conditions, request.Name, goesOn+", where the SharingPolicy (onRevoke) does not say otherwise", object.Generation)
	tellMore := p.standings.suspended(&next.Conditions, &suspension, object.Generation)
	if equality.Semantic.DeepEqual(object.Status, *next) {
		return ctrl.Result{}, nil
	}
	object.Status = *next
	if err := kubeobject.SoleStatus(p.Client).Apply(ctx, object); err != nil {
		return ctrl.Result{}, err
	}
	tell(object)
	tellMore(object)
	return ctrl.Result{}, nil
}

// describe says how a cluster's key stands.
func (p *peers) describe(s *api.PeerStatus, cluster string, m *market.Member, invalid error, generation int64) {
	p.mu.Lock()
	last := p.wrong[cluster]
	p.mu.Unlock()
	c := metav1.Condition{Type: api.ConditionTrusted, Status: metav1.ConditionTrue, Reason: "FirstUse", ObservedGeneration: generation,
		Message: "its key was pinned at the first contact; no admin confirmed it"}
	s.Fingerprint = ""
	if m != nil && m.Key != "" {
		if key, err := clusterkey.ParsePublicKey(m.Key); err == nil {
			s.Fingerprint = key.Fingerprint().String()
		}
	}
	// A card is refused by what is pinned or named, unless the admin has confirmed its key since.
	refused := last.cause != nil && m != nil && (m.Key != "" || m.Trusted != "") && m.Trusted != last.shown
	switch {
	case invalid != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(api.CodeInvalid), invalid.Error()
	case m == nil || m.Key == "" && !refused:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NotMet", "no card of it was seen yet"
	case m.Key != "" && m.Trusted != "" && m.Trusted != s.Fingerprint && !m.Confirmed:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(api.CodeKeyChanged), "the pinned key is not the one that the admin named; existing reservations stay, nothing new is agreed"
	case refused:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(api.CodeOf(last.cause)), fmt.Sprintf("it shows the key %s: %s", last.shown, last.cause)
	case m.Trusted != "" && m.Trusted != s.Fingerprint:
		c.Reason, c.Message = "Rotated", fmt.Sprintf("the key that the admin confirmed, %s, signed this one as its successor; say so in spec.fingerprint, in Git too, or: bourse trust %s %s",
			m.Trusted, cluster, s.Fingerprint)
	case m.Legacy:
		c.Reason, c.Message = "Legacy", "it has no key: the broker signs in its name, which the SharingPolicy accepts (trust: legacy)"
	case m.Confirmed && m.Trusted == "":
		c.Reason, c.Message = "Endorsed", "a root that the admin trusts confirmed its key"
	case m.Trusted != "":
		c.Reason, c.Message = "Confirmed", "the admin confirmed its key"
	}
	meta.SetStatusCondition(&s.Conditions, c)
	if m == nil || !m.Legacy {
		meta.RemoveStatusCondition(&s.Conditions, api.ConditionLegacyAccounting)
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: api.ConditionLegacyAccounting, Status: metav1.ConditionTrue, Reason: "Prototype", ObservedGeneration: generation,
		Message: "its agent is a prototype, which counts a reservation and also the pods that use it: the cluster offers less than it has; peer with it by hand"})
}
