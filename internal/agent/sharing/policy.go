package sharing

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// policyName is the name of the only SharingPolicy that counts.
const policyName = "default"

// PolicyOptions say where the SharingPolicy is.
type PolicyOptions struct {
	Client client.Client
	// Engine checks the expressions of the policy.
	Engine *match.Engine
}

// Policy holds the SharingPolicy that is in force. Several goroutines may use it.
type Policy struct {
	options PolicyOptions
	current atomic.Pointer[api.Sharing]
	changed chan struct{} // to advertise again
}

// NewPolicy returns a Policy that shares nothing yet: see Load.
func NewPolicy(o PolicyOptions) *Policy { return &Policy{options: o, changed: make(chan struct{}, 1)} }

// Sharing returns what the policy in force says, nil if none is in force. The caller must not change it.
func (p *Policy) Sharing() *api.Sharing { return p.current.Load() }

// AdvertiseAgain makes the Advertiser advertise soon, although the policy is the same.
func (p *Policy) AdvertiseAgain() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Load reads the policy for the first time. Errors: those of the API server.
func (p *Policy) Load(ctx context.Context) error {
	_, err := p.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: policyName}})
	return err
}

// Control starts the controller of SharingPolicies.
func (p *Policy) Control(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("sharingpolicy").For(&api.SharingPolicy{}).Complete(p)
}

// Reconcile puts the policy into force and shows that in its status. A policy that is not valid
// shares nothing; its status says why.
func (p *Policy) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	if at.Name != policyName {
		return ctrl.Result{}, nil
	}
	var object api.SharingPolicy
	if err := p.options.Client.Get(ctx, at.NamespacedName, &object); apierrors.IsNotFound(err) {
		p.set(nil)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, kubeobject.Error(err)
	}
	condition := metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "InForce",
		Message: "what it shares is advertised", ObservedGeneration: object.Generation,
	}
	sharing := object.Spec.DeepCopy()
	if err := check(sharing, p.options.Engine); err != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, string(api.CodeOf(err))
		condition.Message = err.Error() + "; nothing is shared until then"
		sharing = nil
	}
	p.set(sharing)
	conditions := &object.Status.Conditions
	changed := meta.SetStatusCondition(conditions, condition)
	changed = meta.RemoveStatusCondition(conditions, formerPluginCondition) || changed
	if ignored := ignoredCondition(&object); ignored != nil {
		changed = meta.SetStatusCondition(conditions, *ignored) || changed
	} else {
		changed = meta.RemoveStatusCondition(conditions, api.ConditionIgnoredFields) || changed
	}
	if !changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, kubeobject.Error(kubeobject.SoleStatus(p.options.Client).Apply(ctx, &object))
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
	if _, err := market.MeasureTerms(&s.Terms); err != nil {
		return err
	}
	if s.APIServerAccess == api.APIServerNetwork && s.Network != api.NetworkWireGuard {
		return api.Invalid("apiServerAccess", "%q needs a network, and network is %q", s.APIServerAccess, s.Network).
			Fix("set network: wireguard, or apiServerAccess: direct")
	}
	for _, pool := range s.Pools {
		lent := api.Resources{}
		if pool.Storage != nil {
			lent[corev1.ResourceStorage] = *pool.Storage
		}
		for field, amounts := range map[string]api.Resources{"caps": pool.Caps, "headroom": pool.Headroom, "storage": lent} {
			if _, err := market.ParseCapacity("pools."+pool.Name+"."+field, amounts); err != nil {
				return err
			}
		}
	}
	if s.Allow == "" {
		return nil
	}
	return engine.CheckAllow(s.Allow)
}
