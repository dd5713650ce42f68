// Package grant tells a provider's Liqo what its Ledger says: it serves the ResourceSlice class "bourse".
//
// A slice belongs to an account: one consumer, one pool. What it is granted is what the account is owed, the sum of
// its reservations: nothing in the slice itself is trusted or needed. A resource that was granted once goes to 0,
// never away, because Liqo would leave it on the virtual node.
package grant

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Owed is what an account is to be granted.
type Owed struct {
	Pool      string
	Resources api.Resources
	// Reservations are the IDs in the sum, sorted.
	Reservations []string
}

// Granter writes the status of our class's slices.
type Granter struct {
	client.Client
	Cluster string
	// Owed says what the account is owed whose slice has this name; not ok where the Ledger knows no such account.
	Owed func(ctx context.Context, consumer, slice string) (Owed, bool, error)
	// Region labels the virtual node, if it is known.
	Region func() string
	// Pool is what the SharingPolicy says of a pool now, nil if nothing.
	Pool func(name string) *api.PoolPolicy
	// Suspended says, in words for the consumer, that this cluster's admin has suspended it; empty if not.
	Suspended func(ctx context.Context, consumer string) (string, error)
}

// What a slice's condition says of a consumer that gets nothing more.
const (
	ReasonSuspended = "Suspended" // by the provider's admin
	ReasonCordoned  = "Cordoned"  // its Tenant is, for another reason
)

// Labels of virtual nodes. Liqo merges labels into a virtual node and never removes one, so only what stays true is
// among them.
const (
	ProviderLabel = api.Group + "/provider"
	PoolLabel     = api.Group + "/pool"
)

// Reconcile makes one slice's status what its account is owed.
func (g *Granter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var slice authv1beta1.ResourceSlice
	if err := g.Get(ctx, request.NamespacedName, &slice); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if slice.Spec.Class != liqo.Class || slice.Labels[consts.ReplicationStatusLabel] != "true" || slice.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	consumer, err := g.consumer(ctx, slice.Namespace)
	if err != nil || consumer == "" {
		return ctrl.Result{}, err
	}
	switch condition(&slice, authv1beta1.ResourceSliceConditionTypeAuthentication) { // Liqo writes that first: its change brings us here again
	case authv1beta1.ResourceSliceConditionAccepted:
	case "":
		return g.remind(ctx, &slice, consumer)
	default:
		return ctrl.Result{}, nil
	}
	hold, err := g.holds(ctx, slice.Namespace, consumer)
	if err != nil || hold.drained {
		return ctrl.Result{}, err
	}
	owed, known, err := g.Owed(ctx, consumer, slice.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, g.write(ctx, &slice, owed, known, hold)
}

// consumer is whose slices a namespace holds, by the label that only this cluster's admins and Liqo can set.
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

// hold is what keeps a consumer from more than it has.
type hold struct {
	drained         bool   // it has, and gets, nothing at all
	reason, message string // empty: nothing does
}

// holds says whether the consumer's Tenant lets it negotiate, and whether an admin does: what ends is taken back all the same.
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
	case tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned:
		return hold{reason: ReasonCordoned, message: "the Tenant of " + consumer + " is cordoned: it gets nothing more"}, nil
	}
	return hold{}, nil
}

// tenant is the Tenant of a consumer; nil if there is none.
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

// answers is how long Liqo has to answer a slice until it is made to look again.
const answers = 10 * time.Second

// remind makes Liqo look at a slice that it has not answered. Liqo v1.2 looks at a slice when its generation changes: one that took the place
// of another of the same name while Liqo did not watch has that of the other, and no answer for ever. When a Tenant changes, Liqo looks at
// all its slices.
func (g *Granter) remind(ctx context.Context, slice *authv1beta1.ResourceSlice, consumer string) (ctrl.Result, error) {
	tenant, err := g.tenant(ctx, slice.Namespace, consumer)
	if err != nil || tenant == nil || !liqo.Ours(tenant) || len(slice.Spec.CSR) == 0 {
		return ctrl.Result{}, err
	}
	wait, err := liqo.Touch(ctx, g.Client, tenant, slice.CreationTimestamp.Time, answers)
	return ctrl.Result{RequeueAfter: wait}, err
}

func condition(s *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// write patches what differs, under the version that was read: Liqo writes the same status.
func (g *Granter) write(ctx context.Context, slice *authv1beta1.ResourceSlice, owed Owed, known bool, hold hold) error {
	next := slice.DeepCopy()
	verdict := authv1beta1.ResourceSliceCondition{
		Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted,
		Reason: "Reserved", Message: "granted for " + strings.Join(owed.Reservations, ", "), LastTransitionTime: metav1.Now(),
	}
	granted := condition(slice, verdict.Type) == authv1beta1.ResourceSliceConditionAccepted
	switch {
	case !known && !granted:
		verdict.Status, verdict.Reason, verdict.Message = authv1beta1.ResourceSliceConditionDenied, "NoReservation",
			"no reservation of this cluster is of a slice of this name: reserve by a ResourceRequest, and the agent makes the slice"
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
		next.Status.Resources = lesser(grantOf(owed.Resources, slice.Status.Resources), slice.Status.Resources)
	default:
		next.Status.Resources = grantOf(owed.Resources, slice.Status.Resources)
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

// offer tells a consumer's Liqo what pods may use besides, and which nodes they go to.
func offer(status *authv1beta1.ResourceSliceStatus, pool *api.PoolPolicy) {
	status.NodeSelector = pool.NodeSelector
	status.StorageClasses, status.IngressClasses, status.LoadBalancerClasses = nil, nil, nil
	for i, name := range pool.StorageClasses {
		status.StorageClasses = append(status.StorageClasses, liqov1beta1.StorageType{StorageClassName: name, Default: i == 0})
	}
	for i, name := range pool.IngressClasses {
		status.IngressClasses = append(status.IngressClasses, liqov1beta1.IngressType{IngressClassName: name, Default: i == 0})
	}
	for i, name := range pool.LoadBalancerClasses {
		status.LoadBalancerClasses = append(status.LoadBalancerClasses, liqov1beta1.LoadBalancerType{LoadBalancerClassName: name, Default: i == 0})
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

// grantOf is what is owed; 0 of what was granted before; and slots for pods, without which nothing runs.
func grantOf(owed api.Resources, before corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range before {
		out[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	for name, amount := range owed {
		out[name] = amount
	}
	if _, asked := owed[corev1.ResourcePods]; !asked {
		out[corev1.ResourcePods] = *resource.NewQuantity(podSlots(owed), resource.DecimalSI)
	}
	return out
}

// Grant is what an account is granted that is owed so much.
func Grant(owed api.Resources) api.Resources { return api.Resources(grantOf(owed, nil)) }

// lesser is what is granted of each resource where nothing may be more than it was.
func lesser(grant, before corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, was := range before {
		out[name] = was
		if is := grant[name]; is.Cmp(was) < 0 {
			out[name] = is
		}
	}
	return out
}

// podSlots is how many pods a slice may have that was reserved without saying so: 110, as many as Kubernetes lets a
// node have, or 16 per CPU; none where nothing is owed.
func podSlots(owed api.Resources) int64 {
	if len(owed) == 0 {
		return 0
	}
	cpu := owed[corev1.ResourceCPU]
	return max(110, 16*cpu.Value())
}

func (g *Granter) labels(owed Owed, before map[string]string) map[string]string {
	out := map[string]string{ProviderLabel: g.Cluster}
	for name, value := range before {
		out[name] = value
	}
	if owed.Pool != "" {
		out[PoolLabel] = owed.Pool
	}
	if region := g.Region(); region != "" {
		out[corev1.LabelTopologyRegion] = region
	}
	return out
}

// Slices names slices, of all consumers and providers if nothing else is said.
func Slices(ctx context.Context, r client.Reader, of ...client.ListOption) ([]client.ObjectKey, error) {
	var list authv1beta1.ResourceSliceList
	if err := r.List(ctx, &list, of...); err != nil {
		return nil, err
	}
	var names []client.ObjectKey
	for i := range list.Items {
		names = append(names, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return names, nil
}

// Told is what Liqo is told that a slice is granted; nil where there is no such slice.
func Told(ctx context.Context, r client.Reader, consumer, name string) (api.Resources, error) {
	namespace, err := liqo.TenantNamespace(ctx, r, consumer)
	if err != nil || namespace == "" {
		return nil, err
	}
	var slice authv1beta1.ResourceSlice
	if err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &slice); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return api.Resources(slice.Status.Resources), nil
}

// User is the name under which a slice's virtual kubelet acts in the provider's cluster. Liqo gives it, and labels
// with it whatever that virtual kubelet makes.
func User(slice, consumer string) string {
	sum := sha256.Sum256([]byte(consumer))
	return fmt.Sprintf("%s-%x", slice, sum[:6])
}
