package agent

import (
	"context"
	"strings"
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

// policy follows the SharingPolicy of the cluster and says whether it is in force.
type policy struct {
	client.Client
	engine  *match.Engine
	current atomic.Pointer[api.Sharing]
	changed chan struct{}
}

// Reconcile takes in the policy. One that is not valid shares nothing, and says why.
func (p *policy) Reconcile(ctx context.Context, at ctrl.Request) (ctrl.Result, error) {
	if at.Name != "default" {
		return ctrl.Result{}, nil
	}
	var object api.SharingPolicy
	if err := p.Get(ctx, at.NamespacedName, &object); apierrors.IsNotFound(err) {
		p.set(nil)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	condition := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "InForce",
		Message: "what it shares is advertised", ObservedGeneration: object.Generation}
	sharing := object.Spec.DeepCopy()
	if err := p.check(sharing); err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(api.CodeOf(err)), err.Error()+"; nothing is shared until then"
		sharing = nil
	}
	p.set(sharing)
	changed := meta.SetStatusCondition(&object.Status.Conditions, condition)
	changed = meta.RemoveStatusCondition(&object.Status.Conditions, formerPluginCondition) || changed
	if ignored := ignoredCondition(&object); ignored != nil {
		changed = meta.SetStatusCondition(&object.Status.Conditions, *ignored) || changed
	} else {
		changed = meta.RemoveStatusCondition(&object.Status.Conditions, api.ConditionIgnoredFields) || changed
	}
	if !changed {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, kubeobject.SoleStatus(p.Client).Apply(ctx, &object)
}

// CheckSharing reports which field of a SharingPolicy its agent would not accept. Errors: Invalid
// with the field.
func CheckSharing(s *api.Sharing) error { return (&policy{engine: match.New()}).check(s) }

func (p *policy) check(s *api.Sharing) error {
	if _, err := market.MeasureTerms(&s.Terms); err != nil {
		return err
	}
	if s.APIServerAccess == api.APIServerNetwork && s.Network != api.NetworkWireGuard {
		return api.Invalid("apiServerAccess", "the API server cannot be reached through a network where there is none").Fix("say network: wireguard, or apiServerAccess: direct")
	}
	for _, pool := range s.Pools {
		lent := api.Resources{}
		if pool.Storage != nil {
			lent[corev1.ResourceStorage] = *pool.Storage
		}
		for field, amounts := range map[string]api.Resources{"caps": pool.Caps, "headroom": pool.Headroom, "storage": lent} {
			if _, err := market.Have("pools."+pool.Name+"."+field, amounts); err != nil {
				return err
			}
		}
	}
	if s.Allow == "" {
		return nil
	}
	return p.engine.CheckAllow(s.Allow)
}

// formerPlaceholders is the namespace in which earlier versions made placeholder pods.
const formerPlaceholders = "bourse-placeholders"

// formerPluginCondition is the condition by which earlier versions showed whether a resource plugin answers.
const formerPluginCondition = "ResourcePlugin"

// ignoredField is a field of a SharingPolicy that no longer has an effect.
type ignoredField struct{ path, remedy string }

// ignoredFields returns the fields of s that no longer have an effect. s may be nil.
func ignoredFields(s *api.Sharing) (found []ignoredField) {
	if s == nil {
		return nil
	}
	if s.ResourcePlugin != "" {
		found = append(found, ignoredField{"resourcePlugin",
			"remove it; to bound what a consumer may have, set maxPerConsumer or a pool's caps (docs/lend.md)"})
	}
	for _, pool := range s.Pools {
		if pool.Placeholders != nil {
			found = append(found, ignoredField{"pools." + pool.Name + ".placeholders",
				"remove it, and kubectl delete namespace --ignore-not-found " + formerPlaceholders + "; to reserve nodes, label and taint them (docs/lend.md)"})
		}
	}
	return found
}

// ignoredCondition names the ignored fields of a policy, each with its remedy. It is nil where there is none.
func ignoredCondition(object *api.SharingPolicy) *metav1.Condition {
	var says []string
	for _, f := range ignoredFields(&object.Spec) {
		says = append(says, f.path+" has no effect: "+f.remedy)
	}
	if says == nil {
		return nil
	}
	return &metav1.Condition{Type: api.ConditionIgnoredFields, Status: metav1.ConditionTrue, Reason: "NoEffect",
		Message: strings.Join(says, "; "), ObservedGeneration: object.Generation}
}

func (p *policy) set(s *api.Sharing) {
	if !equality.Semantic.DeepEqual(p.current.Swap(s), s) {
		p.tell()
	}
}

// tell makes the cluster advertise anew.
func (p *policy) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}
