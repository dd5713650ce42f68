package sharing

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// policyName is the name of the only SharingPolicy that counts, and policyKey its key.
const policyName = "default"

var policyKey = client.ObjectKey{Name: policyName}

// PolicyOptions say where the SharingPolicy is.
type PolicyOptions struct {
	Client client.Client
	// Engine checks the expressions of the policy.
	Engine *match.Engine
	// Namespace is the agent's. It has the Brokers that this cluster joined.
	Namespace string
	// Offers makes the controller of Offers look at all of them. It gets the empty name when the policy
	// shows them at other brokers than before.
	Offers *kubeobject.Trigger
}

// Policy holds the SharingPolicy that is in force. Several goroutines may use it.
type Policy struct {
	options PolicyOptions
	current atomic.Pointer[api.Sharing]
	// brokers are those at which the newest policy shows what is shared, also if it is not in force;
	// unknown are those of them that this cluster has not joined.
	brokers, unknown atomic.Pointer[[]string]
	// refused is what brokers refuse of what it shows, and invalid why the newest policy is not in force.
	refused atomic.Pointer[Refusals]
	invalid atomic.Pointer[error]
	again   kubeobject.Trigger // to show what brokers refuse
	changed chan struct{}      // to advertise again
}

// NewPolicy returns a Policy that shares nothing yet: see Load.
func NewPolicy(o PolicyOptions) *Policy {
	p := &Policy{options: o, changed: make(chan struct{}, 1)}
	p.setBrokers(nil, nil)
	p.refused.Store(new(Refusals))
	p.invalid.Store(new(error))
	return p
}

// Sharing returns what the policy in force says, nil if none is in force. The caller must not change it.
func (p *Policy) Sharing() *api.Sharing { return p.current.Load() }

// ShownAt reports whether the policy shows what is shared at the outlet of a route. The cluster's own connector
// always shows it.
func (p *Policy) ShownAt(via string) bool { return session.IsShownAt(via, *p.brokers.Load()) }

// UnknownBrokers returns the brokers in the policy that this cluster has not joined.
func (p *Policy) UnknownBrokers() []string { return *p.unknown.Load() }

// Refusals returns what brokers refuse of what the policy shows.
func (p *Policy) Refusals() Refusals { return *p.refused.Load() }

// Invalid returns why the newest policy is not in force. It is nil if it is, or if there is none.
func (p *Policy) Invalid() error { return *p.invalid.Load() }

// setRefusals notes what brokers refuse, for the policy's status.
func (p *Policy) setRefusals(r Refusals) {
	if !p.refused.Swap(&r).equal(r) {
		p.again.Add("", policyName)
	}
}

// AdvertiseAgain makes the Advertiser advertise soon, although the policy is the same.
func (p *Policy) AdvertiseAgain() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Load reads the policy for the first time. Errors: those of the API server.
func (p *Policy) Load(ctx context.Context) error {
	_, err := p.Reconcile(ctx, ctrl.Request{NamespacedName: policyKey})
	return err
}

// Control starts the controller of SharingPolicies.
func (p *Policy) Control(m ctrl.Manager) error {
	look := func(context.Context, client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: policyKey}}
	}
	return ctrl.NewControllerManagedBy(m).Named("sharingpolicy").For(&api.SharingPolicy{}).
		Watches(&api.Broker{}, handler.EnqueueRequestsFromMapFunc(look)).
		WatchesRawSource(&p.again).Complete(p)
}

// Reconcile puts the policy into force and shows that in its status. A policy that is not valid
// shares nothing; its status says why.
func (p *Policy) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request.Name != policyName {
		return ctrl.Result{}, nil
	}
	var object api.SharingPolicy
	if err := p.options.Client.Get(ctx, request.NamespacedName, &object); apierrors.IsNotFound(err) {
		// the brokers stay: without a policy, the others are shown nothing more
		p.unknown.Store(new([]string))
		p.invalid.Store(new(error))
		p.set(nil)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	condition := metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "InForce",
		Message: "what it shares is advertised", ObservedGeneration: object.Generation,
	}
	p.Refusals().show(&condition)
	sharing := object.Spec.DeepCopy()
	invalid := check(sharing, p.options.Engine)
	p.invalid.Store(&invalid)
	if err := invalid; err != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, string(api.CodeOf(err))
		condition.Message = err.Error() + "; nothing is shared until then"
		sharing = nil
	}
	unknown, err := p.findUnknown(ctx, object.Spec.Brokers)
	if err != nil {
		return ctrl.Result{}, err
	}
	p.setBrokers(object.Spec.Brokers, unknown)
	p.set(sharing)
	next := object.Status.DeepCopy()
	meta.SetStatusCondition(&next.Conditions, condition)
	meta.RemoveStatusCondition(&next.Conditions, formerPluginCondition)
	setWhere(&next.Conditions, api.ConditionIgnoredFields, ignoredCondition(&object))
	setWhere(&next.Conditions, api.ConditionUnknownBrokers, unknownCondition(&object, unknown))
	return ctrl.Result{}, kubeobject.ShowStatus(ctx, p.options.Client, &object, &object.Status, *next)
}

// setWhere sets a condition, or removes it if it is nil.
func setWhere(conditions *[]metav1.Condition, kind string, c *metav1.Condition) {
	if c == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	meta.SetStatusCondition(conditions, *c)
}

// set puts a policy into force, nil for none.
func (p *Policy) set(s *api.Sharing) {
	if !equality.Semantic.DeepEqual(p.current.Swap(s), s) {
		p.AdvertiseAgain()
	}
}

// Check returns why an agent would not put a SharingPolicy into force, nil if it would. Errors: Invalid, with
// the field.
func Check(s *api.Sharing) error { return check(s, match.New()) }

func check(s *api.Sharing, engine *match.Engine) error {
	if err := checkBrokers(s.Brokers); err != nil {
		return err
	}
	if err := market.CheckLabels("labels", s.Labels); err != nil {
		return err
	}
	for _, p := range s.Pools {
		if err := market.ValidCluster("pools", p.Name); err != nil {
			return err
		}
	}
	if _, err := market.MeasureTerms(&s.Terms); err != nil {
		return err
	}
	if err := cmp.Or(amounts.CheckWhole("maxPerReservation", s.MaxPerReservation),
		amounts.CheckWhole("maxPerConsumer", s.MaxPerConsumer)); err != nil {
		return err
	}
	if s.APIServerAccess == api.APIServerNetwork && s.Network != api.NetworkWireGuard {
		return api.Invalid("apiServerAccess", "%q needs a network, and network is %q", s.APIServerAccess, s.Network).
			Fix("set network: wireguard, or apiServerAccess: direct")
	}
	if err := checkHub(s); err != nil {
		return err
	}
	if err := checkPlain(s); err != nil {
		return err
	}
	for _, pool := range s.Pools {
		lent := api.Resources{}
		if pool.Storage != nil {
			lent[corev1.ResourceStorage] = *pool.Storage
		}
		for field, given := range map[string]api.Resources{"caps": pool.Caps, "headroom": pool.Headroom, "storage": lent} {
			if err := checkLent("pools."+pool.Name+"."+field, given); err != nil {
				return err
			}
		}
	}
	if s.Allow == "" {
		return nil
	}
	return engine.CheckAllow(s.Allow)
}

// checkLent checks amounts that bound what is lent: half a GPU would count as none. Errors: Invalid at field.
func checkLent(field string, given api.Resources) error {
	_, err := amounts.ParseCapacity(field, given)
	return cmp.Or(err, amounts.CheckWhole(field, given))
}

// checkPlain checks the slices of plain consumers. Each is named in one pool.
func checkPlain(s *api.Sharing) error {
	seen := map[string]bool{}
	for pool, c := range s.PlainConsumers() {
		slice := c.Cluster + "." + c.Slice
		field := "pools." + pool + ".plainConsumers." + slice
		if err := checkLent(field+".max", c.Max); err != nil {
			return err
		}
		if c.Cluster == "" || c.Slice == "" || len(c.Max) == 0 {
			return api.Invalid(field, "cluster, slice or max is missing").Fix("give all three")
		}
		if seen[slice] {
			return api.Invalid(field, "the slice is named twice").Fix("name it in one pool only")
		}
		seen[slice] = true
	}
	return nil
}

// badMax reports whether the max of a virtual node is not valid.
func badMax(n api.HandMadeNode) bool {
	return checkLent("max", n.Max) != nil || n.Node == "" || len(n.Max) == 0
}

// checkHub checks a policy with a pool of virtual nodes as the CRD does: one namespace of a consumer
// has the pods of all pools, and nothing but pods goes through a hub.
func checkHub(s *api.Sharing) error {
	for _, p := range s.Pools {
		field := "pools." + p.Name + ".virtualNodes"
		switch {
		case p.VirtualNodes == nil:
		case len(p.VirtualNodes.Selector.MatchLabels) == 0:
			return api.Invalid(field+".selector.matchLabels", "selects no virtual node").Fix("name a label of their Nodes")
		case len(s.Pools) > 1:
			return api.Invalid(field, "the policy has other pools").Fix("make this the only pool")
		case s.Network == api.NetworkWireGuard:
			return api.Invalid("network", "%q does not go through a hub", s.Network).Fix("set network: none")
		case slices.ContainsFunc(p.VirtualNodes.ByHand, badMax):
			return api.Invalid(field+".byHand", "a max is not valid").Fix("give amounts such as {cpu: \"8\", memory: 16Gi}")
		case s.Relend:
			return api.Invalid("relend", "what a hub lends is not lent on again").Fix("leave relend out")
		case len(p.NodeSelector)+len(p.TolerateTaints)+len(p.StorageClasses)+len(p.IngressClasses)+
			len(p.LoadBalancerClasses)+len(p.RuntimeClasses) > 0 || p.Storage != nil:
			return api.Invalid(field, "the pool has a nodeSelector, tolerateTaints, storage or classes").
				Fix("leave these out: virtual nodes have none")
		}
	}
	return nil
}
