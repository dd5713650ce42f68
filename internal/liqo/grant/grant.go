// Package grant serves the ResourceSlice class "bourse": it grants the resources that the provider's
// Ledger holds.
//
// A slice belongs to an account: one consumer and one pool. Its grant is the sum of the account's
// reservations. Nothing in the slice itself is trusted or needed. A resource that was granted once
// goes to 0 and is never removed, because Liqo would leave it on the virtual node.
package grant

import (
	"context"
	"maps"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Owed is the grant that an account must get.
type Owed struct {
	Pool      string
	Resources api.Resources
	// Reservations are the IDs in the sum, sorted.
	Reservations []string
	// Unguarded: the admission policies do not hold the consumer now. Its grant does not grow.
	Unguarded bool

	ended api.Resources // what the grant covers besides: what pods that have ended take of it
}

// Granter writes the status of our class's slices. A grant also covers what pods that have ended take of Liqo's
// quota ([Ended]), if the consumer keeps the size of its virtual node.
type Granter struct {
	client.Client
	// Reader reads from the API server.
	Reader  client.Reader
	Cluster string
	// Owed returns the grant for the account with this slice; false if the Ledger has no such account.
	Owed func(ctx context.Context, consumer, slice string) (Owed, bool, error)
	// Properties returns those of this cluster's card. Region and architecture become labels of the virtual node.
	Properties func() api.Properties
	// Pool returns the SharingPolicy's entry for a pool, nil if there is none.
	Pool func(name string) *api.PoolPolicy
	// Suspended returns a message for the consumer if this cluster's admin has suspended it; else empty.
	Suspended func(ctx context.Context, consumer string) (string, error)
}

// Reasons in the condition of a slice whose consumer gets nothing more.
const (
	ReasonSuspended = "Suspended" // the provider's admin suspended the consumer
	ReasonCordoned  = "Cordoned"  // its Tenant is cordoned for another reason
	ReasonUnguarded = "Unguarded" // the admission policies do not hold the consumer
)

// Labels of virtual nodes. Liqo adds labels to a virtual node and never removes one, so these must
// stay true.
const (
	ProviderLabel = api.Group + "/provider"
	PoolLabel     = api.Group + "/pool"
)

// defaultArchitecture is the label that Liqo v1.2 gives a virtual node whose slice names no architecture.
const defaultArchitecture = "amd64"

// Reconcile writes the grant of its account into one slice's status.
func (g *Granter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var slice authv1beta1.ResourceSlice
	if err := g.Get(ctx, request.NamespacedName, &slice); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if slice.Labels[consts.ReplicationStatusLabel] != "true" || slice.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if class, err := liqo.ClassOf(ctx, g.Reader, &slice); err != nil || class != liqo.Class {
		return ctrl.Result{}, err
	}
	consumer, err := g.consumer(ctx, slice.Namespace)
	if err != nil || consumer == "" {
		return ctrl.Result{}, err
	}
	// Liqo writes this condition first. That change triggers the next call.
	switch condition(&slice, authv1beta1.ResourceSliceConditionTypeAuthentication) {
	case authv1beta1.ResourceSliceConditionAccepted:
	case "":
		return g.triggerReconcile(ctx, &slice, consumer)
	default:
		return ctrl.Result{}, nil
	}
	hold, err := g.holds(ctx, slice.Namespace, consumer)
	if err != nil || hold.drained || hold.resumes {
		return ctrl.Result{}, err
	}
	owed, known, err := g.Owed(ctx, consumer, slice.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	again := time.Duration(0)
	if owed.Unguarded {
		again = liqo.GuardEvery
		if hold.reason == "" {
			hold.reason, hold.message = ReasonUnguarded, "the admission policies of "+g.Cluster+" do not hold "+consumer+" yet"
		}
	}
	if keepsSize(&slice) && len(owed.Reservations) > 0 {
		if owed.ended, err = Ended(ctx, g.Reader, User(slice.Name, consumer)); err != nil {
			return ctrl.Result{}, err
		}
		if len(owed.ended) > 0 && again == 0 {
			again = coverEvery
		}
	}
	return ctrl.Result{RequeueAfter: again}, g.write(ctx, &slice, owed, known, hold)
}

// consumer returns the consumer whose slices a namespace holds, by a label that only this cluster's
// admins and Liqo can set.
func (g *Granter) consumer(ctx context.Context, namespace string) (string, error) {
	var ns corev1.Namespace
	if err := g.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if ns.Labels[consts.TenantNamespaceLabel] != "true" {
		return "", nil
	}
	return liqo.Peer(&ns), nil
}

// hold keeps a consumer from getting more than it has.
type hold struct {
	drained         bool   // the consumer gets nothing at all
	resumes         bool   // its Tenant follows the end of a suspension, and until then the slice stays as it is
	reason, message string // empty: no hold
}

// holds returns the hold on a consumer, by its Tenant or by an admin's suspension. Grants still shrink
// under a hold.
func (g *Granter) holds(ctx context.Context, namespace, consumer string) (hold, error) {
	tenant, err := g.tenant(ctx, namespace, consumer)
	if err != nil {
		return hold{}, err
	}
	if tenant == nil || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return hold{drained: true}, nil
	}
	why, err := g.Suspended(ctx, consumer)
	switch {
	case err != nil:
		return hold{}, err
	case why != "":
		return hold{reason: ReasonSuspended, message: why}, nil
	case tenant.Spec.TenantCondition != authv1beta1.TenantConditionCordoned:
	case tenant.Annotations[liqo.Restricted] == liqo.Suspended:
		return hold{resumes: true}, nil
	default:
		return hold{reason: ReasonCordoned, message: "the Tenant of " + consumer + " is cordoned: it gets nothing more"}, nil
	}
	return hold{}, nil
}

// tenant returns the Tenant of a consumer; nil if there is none.
func (g *Granter) tenant(ctx context.Context, namespace, consumer string) (*authv1beta1.Tenant, error) {
	var list authv1beta1.TenantList
	if err := g.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if string(list.Items[i].Spec.ClusterID) == consumer {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// answers is the time after which triggerReconcile makes Liqo reconcile a slice that it has not answered.
const answers = 10 * time.Second

// triggerReconcile makes Liqo reconcile a slice that it has not answered. Liqo v1.2 reconciles a slice when its
// generation changes. A slice that replaced another of the same name while Liqo did not watch may have
// the same generation, and Liqo would never answer. A change of the Tenant makes Liqo reconcile all
// its slices.
func (g *Granter) triggerReconcile(
	ctx context.Context, slice *authv1beta1.ResourceSlice, consumer string,
) (ctrl.Result, error) {
	tenant, err := g.tenant(ctx, slice.Namespace, consumer)
	if err != nil || tenant == nil || !liqo.IsOurs(tenant) || len(slice.Spec.CSR) == 0 {
		return ctrl.Result{}, err
	}
	wait, err := liqo.Touch(ctx, g.Client, tenant, slice.CreationTimestamp.Time, answers)
	return ctrl.Result{RequeueAfter: wait}, err
}

func condition(s *authv1beta1.ResourceSlice,
	kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// write patches the differences with an optimistic lock, because Liqo writes the same status.
func (g *Granter) write(ctx context.Context, slice *authv1beta1.ResourceSlice, owed Owed, known bool, hold hold) error {
	next := slice.DeepCopy()
	verdict := authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted,
		Reason: "Reserved", Message: "granted for " + firstFew(owed.Reservations), LastTransitionTime: metav1.Now(),
	}
	granted := condition(slice, verdict.Type) == authv1beta1.ResourceSliceConditionAccepted
	switch {
	case !known && !granted:
		verdict.Status, verdict.Reason, verdict.Message = authv1beta1.ResourceSliceConditionDenied, "NoReservation",
			"no reservation of this cluster has a slice of this name: create a ResourceRequest, and the agent makes the slice"
	case hold.reason != "" && !granted:
		verdict.Status, verdict.Reason, verdict.Message = authv1beta1.ResourceSliceConditionDenied, hold.reason, hold.message
	case len(owed.Reservations) == 0:
		verdict.Reason, verdict.Message = "NothingReserved", "no reservation is left: nothing is granted"
	case hold.reason != "":
		verdict.Reason, verdict.Message = hold.reason, hold.message
	}
	switch {
	case verdict.Status != authv1beta1.ResourceSliceConditionAccepted:
	case hold.reason != "":
		next.Status.Resources = lesser(cover(grantOf(owed.Resources, slice.Status.Resources), owed.ended),
			slice.Status.Resources)
	default:
		next.Status.Resources = cover(grantOf(wished(owed.Resources, slice.Spec.Resources), slice.Status.Resources),
			owed.ended)
		next.Status.NodeLabels = g.labels(owed, slice.Status.NodeLabels)
		if pool := g.Pool(owed.Pool); pool != nil {
			offer(&next.Status, pool)
		}
	}
	setCondition(&next.Status, verdict)
	if equality.Semantic.DeepEqual(slice.Status, next.Status) {
		return nil
	}
	return g.Status().Patch(ctx, next, client.MergeFromWithOptions(slice, client.MergeFromWithOptimisticLock{}))
}

// offer sets the classes that a consumer's pods may use, and the nodes that they run on.
func offer(status *authv1beta1.ResourceSliceStatus, pool *api.PoolPolicy) {
	status.NodeSelector = pool.PodSelector()
	status.StorageClasses, status.IngressClasses, status.LoadBalancerClasses = nil, nil, nil
	for i, name := range pool.StorageClasses {
		status.StorageClasses = append(status.StorageClasses,
			liqov1beta1.StorageType{StorageClassName: name, Default: i == 0})
	}
	for i, name := range pool.IngressClasses {
		status.IngressClasses = append(status.IngressClasses,
			liqov1beta1.IngressType{IngressClassName: name, Default: i == 0})
	}
	for i, name := range pool.LoadBalancerClasses {
		status.LoadBalancerClasses = append(status.LoadBalancerClasses,
			liqov1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: i == 0})
	}
}

func setCondition(status *authv1beta1.ResourceSliceStatus, c authv1beta1.ResourceSliceCondition) {
	i := slices.IndexFunc(status.Conditions, func(o authv1beta1.ResourceSliceCondition) bool { return o.Type == c.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old := status.Conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions[i] = c
}

// labels returns those of the virtual node, given those before.
func (g *Granter) labels(owed Owed, before map[string]string) map[string]string {
	out := map[string]string{ProviderLabel: g.Cluster}
	maps.Copy(out, before)
	if owed.Pool != "" {
		out[PoolLabel] = owed.Pool
	}
	has := g.Properties()
	if has.Region != "" {
		out[corev1.LabelTopologyRegion] = has.Region
	}
	switch was := out[corev1.LabelArchStable]; {
	case len(has.Architectures) == 1:
		out[corev1.LabelArchStable] = has.Architectures[0]
	case len(has.Architectures) > 1 && was != "": // Liqo would not remove it from the virtual node
		out[corev1.LabelArchStable] = defaultArchitecture
	}
	return out
}
