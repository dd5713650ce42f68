package offload

import (
	"context"
	"crypto/rand"
	"strings"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// customerLabel is the label of a NamespaceOffloading that a hub makes for a customer: the customer's ID.
const customerLabel = api.Group + "/offloaded-for"

// Customer is the cluster for which a namespace of a hub is offloaded, and the namespace's name at the
// providers.
type Customer struct{ ID, Remote string }

// NewCustomer names another namespace of a customer. All of a customer have one tenant.
// Errors: Invalid if this cluster's ID is too long for a hub.
func (n *Namespaces) NewCustomer(id string, all map[string]Customer) (Customer, error) {
	tenant := random()
	for _, c := range all {
		if t := liqo.TenantOf(c.Remote, n.Cluster); c.ID == id && t != "" {
			tenant = t
		}
	}
	name := liqo.HubPrefix + tenant + "-" + random() + "-" + n.Cluster
	if len(n.Cluster) > liqo.MaxHubID {
		return Customer{}, api.Invalid("cluster", "the ID of a hub has at most %d characters", liqo.MaxHubID).
			Fix("install Liqo with a shorter clusterID")
	}
	return Customer{id, name}, nil
}

// random returns 8 characters that nobody can guess.
func random() string { return strings.ToLower(rand.Text()[:8]) }

// Customers returns the customers by the namespaces that are offloaded for them.
func (n *Namespaces) Customers(ctx context.Context, r client.Reader) (map[string]Customer, error) {
	var list offv1beta1.NamespaceOffloadingList
	err := r.List(ctx, &list, client.HasLabels{customerLabel}, client.MatchingLabels(liqo.Managed()))
	out := map[string]Customer{}
	for _, o := range list.Items {
		out[o.Namespace] = Customer{o.Labels[customerLabel], o.Spec.RemoteNamespaceName}
	}
	return out, err
}

// Selected returns the providers of the virtual nodes whose Nodes have labels, by the names of the Nodes.
func (n *Namespaces) Selected(ctx context.Context, has map[string]string) (map[string]string, error) {
	var list corev1.NodeList
	err := n.List(ctx, &list, client.MatchingLabels(labels.Merge(has, liqo.VirtualNodes())))
	out := map[string]string{}
	for _, node := range list.Items {
		out[node.Name] = node.Labels[consts.RemoteClusterID]
	}
	return out, err
}

// Gone returns those of some namespaces whose pods need not be moved: the namespace does not exist,
// or a customer has ended it.
func (n *Namespaces) Gone(ctx context.Context, names []string) (out []string, err error) {
	for _, name := range names {
		var ns corev1.Namespace
		err := n.Get(ctx, client.ObjectKey{Name: name}, &ns)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err != nil || ns.DeletionTimestamp != nil && liqo.Peer(&ns) != "" {
			out = append(out, name)
		}
	}
	return out, nil
}
