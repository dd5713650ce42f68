package offload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// Namespaces offloads namespaces of this cluster for its requests.
type Namespaces struct {
	client.Client
	// Reader reads from the API server. The cache of Client may lack a Node that was just made.
	Reader client.Reader
	// Cluster is this cluster's ID. Liqo appends it to the names of namespaces at the provider.
	Cluster string
}

// offloading is the only name of a NamespaceOffloading that Liqo accepts.
const offloading = "offloading"

// Use states how the requests of this cluster use one namespace.
type Use struct {
	Namespace string
	// Requested: a request names the namespace. It may have no provider yet.
	Requested bool
	// Providers are the clusters that may run its pods.
	Providers []string
	Strategy  api.OffloadStrategy
	// Customer is, in a hub, the cluster for which Liqo made the namespace. Its pods run on at the
	// providers, never at the customer itself.
	Customer Customer
}

// CheckAllowed reports whether requests of one namespace may offload another: they may offload
// their own, and one whose label names theirs. Errors: Forbidden, NotFound.
func CheckAllowed(ctx context.Context, c client.Reader, namespace, requests string) error {
	if namespace == requests {
		return nil
	}
	var ns corev1.Namespace
	err := c.Get(ctx, client.ObjectKey{Name: namespace}, &ns)
	switch {
	case apierrors.IsNotFound(err):
		return api.Errorf(api.CodeNotFound, "there is no namespace %s to offload", namespace).
			Fix("create it: kubectl create namespace %s", namespace)
	case err != nil:
		return kubeobject.Error(err)
	case ns.Labels[api.RequestsFromLabel] != requests:
		return api.Errorf(api.CodeForbidden, "namespace %s may not be offloaded by requests of %s", namespace, requests).
			Fix("label it: kubectl label namespace %s %s=%s; or make the request there: --namespace %[1]s",
				namespace, api.RequestsFromLabel, requests)
	}
	return nil
}

// Ensure offloads a namespace that a request names: its pods may run on the virtual nodes that have its
// label (see [Namespaces.SetLabels]). The selector never changes, because Liqo copies it into each pod,
// where it cannot change. So a pod runs at a provider that comes after it. Ensure ends the offloading
// that no request names, once no virtual node has the label. lasts is false if the namespace has a
// NamespaceOffloading that Bourse did not make, or that is being deleted.
// Errors: Conflict if another NamespaceOffloading does not select the providers.
func (n *Namespaces) Ensure(ctx context.Context, u Use) (lasts bool, err error) {
	o := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: offloading}}
	err = n.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return true, err
	case err == nil && !liqo.IsOurs(o):
		return false, foreign(o, u)
	case o.DeletionTimestamp != nil:
		return false, nil
	case err == nil:
		return true, n.update(ctx, o, u)
	case !u.Requested:
		return true, nil
	}
	if u.Customer.ID == "" {
		if err := api.CheckNamespace(u.Namespace, n.Cluster); err != nil {
			return true, err
		}
	}
	return true, client.IgnoreAlreadyExists(n.Create(ctx, NewOffloading(u))) // the cache lags: the next call compares
}

// update ends an offloading of ours that nothing uses, or gives one of an older version its selector.
func (n *Namespaces) update(ctx context.Context, o *offv1beta1.NamespaceOffloading, u Use) error {
	spec := specOf(u)
	if !equality.Semantic.DeepEqual(o.Spec.ClusterSelector, spec.ClusterSelector) {
		ready, err := n.labelSelected(ctx, o)
		if err != nil || !ready {
			return err
		}
		return kubeobject.Change(ctx, n.Client, o, func() {
			o.Spec.ClusterSelector = spec.ClusterSelector // Liqo forbids other changes
		})
	}
	if u.Requested {
		return nil
	}
	if providers, err := n.Labelled(ctx, u.Namespace); err != nil || len(providers) > 0 {
		return err
	}
	return client.IgnoreNotFound(n.Delete(ctx, o))
}

// byLocality are the strategies, those that keep most pods at home first.
var byLocality = []api.OffloadStrategy{offloadLocal, api.OffloadLocalAndRemote, api.OffloadRemote}

// offloadLocal is the strategy by which all pods stay.
const offloadLocal api.OffloadStrategy = "Local"

// MostLocal returns that of two strategies of requests for one namespace that keeps more pods at home, whichever
// came first. so is empty before the first request.
func MostLocal(so, other api.OffloadStrategy) api.OffloadStrategy {
	other = cmp.Or(other, api.OffloadLocalAndRemote)
	if so != "" && slices.Index(byLocality, so) < slices.Index(byLocality, other) {
		return so
	}
	return other
}

// OtherStrategy says which of the namespaces are offloaded by another strategy than a request asks for: Liqo does
// not let it change. It is empty if none is.
func (n *Namespaces) OtherStrategy(ctx context.Context, namespaces []string,
	asked api.OffloadStrategy) (string, error) {
	asked = cmp.Or(asked, api.OffloadLocalAndRemote)
	var text strings.Builder
	for _, name := range namespaces {
		var o offv1beta1.NamespaceOffloading
		err := n.Get(ctx, client.ObjectKey{Namespace: name, Name: offloading}, &o)
		if client.IgnoreNotFound(err) != nil {
			return "", err
		}
		if strategy := cmp.Or(api.OffloadStrategy(o.Spec.PodOffloadingStrategy), asked); err == nil && strategy != asked {
			fmt.Fprintf(&text, "; the strategy of %s is %s, not %s, as another request or its admin offloaded it so",
				name, strategy, asked)
		}
	}
	return text.String(), nil
}

// NewOffloading returns the NamespaceOffloading for a use of a namespace.
func NewOffloading(u Use) *offv1beta1.NamespaceOffloading {
	o := &offv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: offloading, Labels: liqo.Managed()},
		Spec:       specOf(u),
	}
	if u.Customer.ID != "" {
		o.Labels[customerLabel] = u.Customer.ID
	}
	return o
}

func specOf(u Use) offv1beta1.NamespaceOffloadingSpec {
	spec := offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
		PodOffloadingStrategy:    offv1beta1.PodOffloadingStrategyType(cmp.Or(u.Strategy, api.OffloadLocalAndRemote)),
		ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: Label(u.Namespace), Operator: corev1.NodeSelectorOpIn, Values: []string{"true"},
			}},
		}}},
	}
	if u.Customer.ID != "" {
		spec.NamespaceMappingStrategy,
			spec.RemoteNamespaceName = offv1beta1.SelectedNameMappingStrategyType, u.Customer.Remote
		spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		term := &spec.ClusterSelector.NodeSelectorTerms[0]
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: consts.RemoteClusterID, Operator: corev1.NodeSelectorOpNotIn, Values: []string{u.Customer.ID},
		})
	}
	return spec
}

// foreign returns an error unless the namespace's own admin has offloaded it to these providers.
func foreign(o *offv1beta1.NamespaceOffloading, u Use) error {
	for _, provider := range u.Providers {
		if !selects(o, provider, nil) {
			return api.Errorf(api.CodeConflict,
				"namespace %s has a NamespaceOffloading that Bourse did not make and that does not select %s",
				u.Namespace, provider).
				Fix("add to its clusterSelector: {key: %s, operator: In, values: [%s]}",
					consts.RemoteClusterID, strings.Join(u.Providers, ", "))
		}
	}
	return nil
}

// SelectsAny reports whether an offloading admits the virtual nodes of any provider, even an unknown one.
func SelectsAny(o *offv1beta1.NamespaceOffloading) bool { return selects(o, "bourse-nobody", nil) }

// selects reports whether an offloading admits a provider's virtual nodes.
func selects(o *offv1beta1.NamespaceOffloading, provider string, labels map[string]string) bool {
	if len(o.Spec.ClusterSelector.NodeSelectorTerms) == 0 {
		return true
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		consts.RemoteClusterID: provider, consts.TypeLabel: consts.TypeNode,
	}}}
	maps.Copy(node.Labels, labels)
	selector, err := nodeaffinity.NewNodeSelector(&o.Spec.ClusterSelector)
	return err != nil || selector.Match(node) // assume that an invalid selector admits the node
}

// Consents reports whether a namespace may be offloaded to any provider to which its own NamespaceOffloading takes
// it. Its label says so, which its admin writes: no request can.
func Consents(ns *corev1.Namespace) bool { return ns.Labels[api.OffloadToAnyLabel] == "true" }

// Others returns the namespaces that would be offloaded to a provider although neither named has them nor their
// label consents: their Secrets would go there.
func (n *Namespaces) Others(ctx context.Context, provider string,
	labels map[string]string, named []string) ([]string, error) {
	var list offv1beta1.NamespaceOffloadingList
	if err := n.List(ctx, &list); err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		o := &list.Items[i]
		if liqo.IsOurs(o) || slices.Contains(named, o.Namespace) || !selects(o, provider, labels) {
			continue
		}
		var ns corev1.Namespace
		if err := n.Get(ctx, client.ObjectKey{Name: o.Namespace}, &ns); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if !Consents(&ns) {
			out = append(out, o.Namespace)
		}
	}
	slices.Sort(out)
	return out, nil
}

// ListOurs lists the namespaces that we offloaded.
func (n *Namespaces) ListOurs(ctx context.Context) ([]string, error) {
	var list offv1beta1.NamespaceOffloadingList
	err := n.List(ctx, &list, client.MatchingLabels(liqo.Managed()))
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Namespace)
	}
	return out, err
}

// Ready reports whether Liqo has mapped a namespace at a provider; message says how far it is.
func (n *Namespaces) Ready(ctx context.Context, namespace, provider string) (ready bool, message string, err error) {
	var o offv1beta1.NamespaceOffloading
	if err := n.Get(ctx, client.ObjectKey{Namespace: namespace, Name: offloading}, &o); err != nil {
		return false, "namespace " + namespace + " is not offloaded yet", client.IgnoreNotFound(err)
	}
	if !liqo.IsOurs(&o) && !selects(&o, provider, nil) {
		return false, "namespace " + namespace + " is not offloaded to " + provider, nil
	}
	message = "the offloading of namespace " + namespace + " is " + string(o.Status.OffloadingPhase)
	for _, c := range o.Status.RemoteNamespacesConditions[provider] {
		if c.Type == offv1beta1.NamespaceReady {
			ready, message = c.Status == corev1.ConditionTrue, "namespace "+namespace+" at "+provider+": "+c.Message
		}
	}
	return ready, message, nil
}
