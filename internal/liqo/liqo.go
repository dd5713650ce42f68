// Package liqo holds Liqo v1.2's kinds, names and labels. Only this package and those below it use
// Liqo's API.
//
//	peering   splits Liqo's handshake into messages between two agents
//	network   splits the setup of Liqo's network into messages between two agents
//	grant     serves the ResourceSlice class "bourse": grants what the Ledger holds
//	guard     protects the namespaces that the provider's Liqo makes for consumers
//	posture   checks whether a cluster is safe to lend from, and audits a consumer
//	offload   manages the consumer's ResourceSlices, virtual nodes and NamespaceOffloadings
//	plan      lists all of these objects for a reservation, before it is made
//
// Liqo is unmodified: these packages use only objects that its documentation describes.
package liqo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Class is the class of our ResourceSlices. Liqo leaves slices of other classes than its own to others.
const Class authv1beta1.ResourceSliceClass = "bourse"

// GuardEvery is how often the agent looks again at a plain consumer that it cannot guard yet.
const GuardEvery = 5 * time.Second

// Labels of objects that we made. Bourse never changes objects without them.
const (
	managedBy = consts.K8sAppManagedByKey
	bourse    = "bourse"
)

// AddToScheme adds Liqo's kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		authv1beta1.AddToScheme, liqov1beta1.AddToScheme,
		offv1beta1.AddToScheme, networkingv1beta1.AddToScheme, ipamv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// Liqo's kinds that agents watch, as empty objects.
func Tenant() client.Object        { return &authv1beta1.Tenant{} }
func Identity() client.Object      { return &authv1beta1.Identity{} }
func ResourceSlice() client.Object { return &authv1beta1.ResourceSlice{} }
func VirtualNode() client.Object   { return &offv1beta1.VirtualNode{} }
func Offloading() client.Object    { return &offv1beta1.NamespaceOffloading{} }
func Configuration() client.Object { return &networkingv1beta1.Configuration{} }
func GatewayServer() client.Object { return &networkingv1beta1.GatewayServer{} }
func GatewayClient() client.Object { return &networkingv1beta1.GatewayClient{} }
func PublicKey() client.Object     { return &networkingv1beta1.PublicKey{} }
func Connection() client.Object    { return &networkingv1beta1.Connection{} }

// VirtualNodes returns the labels of the Nodes that Liqo makes.
func VirtualNodes() labels.Set { return labels.Set{consts.TypeLabel: consts.TypeNode} }

// Installed reports whether a cluster has Liqo.
func Installed(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind).GroupKind(),
		authv1beta1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Managed returns the labels of all objects that we made.
func Managed() labels.Set { return labels.Set{managedBy: bourse} }

// Lists returns empty lists of Liqo's kinds that we make.
func Lists() []client.ObjectList {
	return []client.ObjectList{
		&authv1beta1.TenantList{}, &authv1beta1.IdentityList{},
		&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{},
		&offv1beta1.NamespaceOffloadingList{}, &offv1beta1.VkOptionsTemplateList{},
		&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{},
		&networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{},
	}
}

// Change lists objects and writes those that change changes. It ignores objects that are gone by
// then. Errors: those of the API server, also for an unknown kind.
func Change(ctx context.Context, c client.Client, list client.ObjectList,
	change func(client.Object), which ...client.ListOption) error {
	if err := c.List(ctx, list, which...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(client.Object)
		return kubeobject.Change(ctx, c, o, func() { change(o) })
	})
}

// touched is the annotation with the time at which an object was last touched.
const touched = api.Group + "/touched"

// Touch changes an object so that its controllers reconcile it: once per interval, first one interval
// after since. It returns the time until the next change. It ignores an object that is gone.
func Touch(ctx context.Context, c client.Client, o client.Object,
	since time.Time, every time.Duration) (wait time.Duration, err error) {
	if last, err := time.Parse(time.RFC3339, o.GetAnnotations()[touched]); err == nil && last.After(since) {
		since = last
	}
	now := time.Now()
	if left := every - now.Sub(since); left > 0 {
		return left, nil
	}
	return every, kubeobject.Change(ctx, c, o, func() {
		touch := labels.Set{touched: now.UTC().Format(time.RFC3339)}
		o.SetAnnotations(labels.Merge(o.GetAnnotations(), touch))
	})
}

// IsOurs reports whether we made an object.
func IsOurs(o client.Object) bool { return o.GetLabels()[managedBy] == bourse }

// Labels returns the labels of an object that we make for a peer, and more of the form name, value.
func Labels(peer string, more ...string) map[string]string {
	all := map[string]string{managedBy: bourse, consts.RemoteClusterID: peer}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// Creator returns the user of the slice whose virtual kubelet made a pod; empty for a pod that was not
// made from a ShadowPod. Liqo's webhook sets the label. Only this cluster's admins can set it otherwise.
func Creator(pod *metav1.ObjectMeta) string {
	if pod.Labels[consts.ManagedByLabelKey] != consts.ManagedByShadowPodValue {
		return ""
	}
	return pod.Labels[consts.CreatorLabelKey]
}

// FromShadowPods returns the labels of the pods that run here for consumers.
func FromShadowPods() labels.Set {
	return labels.Set{consts.ManagedByLabelKey: consts.ManagedByShadowPodValue}
}

// Of selects the objects for a cluster.
func Of(peer string) client.MatchingLabels {
	return client.MatchingLabels{consts.RemoteClusterID: peer}
}

// Peer returns the cluster to which an object belongs, by Liqo's label.
func Peer(o client.Object) string { return o.GetLabels()[consts.RemoteClusterID] }

// TenantNamespace returns the namespace for the objects of a peer, of both directions; empty if there
// is none. Like Liqo, it finds the namespace by its labels.
func TenantNamespace(ctx context.Context, r client.Reader, peer string) (string, error) {
	var list corev1.NamespaceList
	err := r.List(ctx, &list, client.MatchingLabels{consts.TenantNamespaceLabel: "true", consts.RemoteClusterID: peer})
	if err != nil {
		return "", err
	}
	for _, ns := range list.Items {
		if ns.DeletionTimestamp == nil {
			return ns.Name, nil
		}
	}
	if len(list.Items) > 0 {
		return "", api.Errorf(api.CodeUnavailable, "namespace %s is being deleted", list.Items[0].Name).
			Fix("wait until it is gone")
	}
	return "", nil
}

// EnsureTenantNamespace returns that namespace and makes it if necessary, with the name that Liqo would use.
func EnsureTenantNamespace(ctx context.Context, c client.Client, peer string) (string, error) {
	name, err := TenantNamespace(ctx, c, peer)
	if err != nil || name != "" {
		return name, err
	}
	ns := NewTenantNamespace(peer)
	if err := c.Create(ctx, ns); apierrors.IsAlreadyExists(err) {
		return "", api.Errorf(api.CodeUnavailable, "namespace %s exists, but its labels do not name %s", ns.Name, peer).
			Fix("wait, or give it the labels %s=true and %s=%s", consts.TenantNamespaceLabel, consts.RemoteClusterID, peer)
	} else if err != nil {
		return "", err
	}
	return ns.Name, nil
}

// NewTenantNamespace returns the namespace for the objects of a peer.
func NewTenantNamespace(peer string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: bounded("liqo-tenant-" + peer), Labels: Labels(peer, consts.TenantNamespaceLabel, "true"),
	}}
}

// bounded returns a name that fits a DNS label: a longer one is cut and ends with its hash.
func bounded(name string) string {
	if len(name) <= 63 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:52] + "-" + hex.EncodeToString(sum[:5])
}
