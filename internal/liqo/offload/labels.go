package offload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// labelPrefix begins the labels of virtual nodes that end with the namespace whose pods may run there.
// A namespace has at most 63 characters, as this part of a label has.
const labelPrefix = "offload." + api.Group + "/"

// Label returns the label of the virtual nodes on which pods of a namespace may run.
func Label(namespace string) string { return labelPrefix + namespace }

// leavingLabel is the label of a Node that the agent cordoned: since when, in Unix seconds, and the UID of the Node. It
// ends with byAdmin if an admin had cordoned the Node before. A provider of a peering made by hand chooses labels of its
// Node, and does not know the UID: a label without it changes nothing.
const (
	leavingLabel = api.Group + "/leaving"
	byAdmin      = ".cordoned"
)

// markLeaving cordons a Node.
func markLeaving(node *corev1.Node, since time.Time) {
	value := fmt.Sprintf("%d.%s", since.Unix(), node.UID)
	if node.Spec.Unschedulable {
		value += byAdmin
	}
	node.Spec.Unschedulable = true
	metav1.SetMetaDataLabel(&node.ObjectMeta, leavingLabel, value)
}

// readLeaving returns since when the agent keeps pods off a Node, zero if it does not, and whether an admin had cordoned
// the Node before.
func readLeaving(node *corev1.Node) (since time.Time, admins bool) {
	value, admins := strings.CutSuffix(node.Labels[leavingLabel], byAdmin)
	began, of, _ := strings.Cut(value, ".")
	unix, err := strconv.ParseInt(began, 10, 64)
	if err != nil || of != string(node.UID) {
		return time.Time{}, false
	}
	return time.Unix(unix, 0), admins
}

// virtualNodes lists the virtual nodes with a provider, also those made by hand; all if it is empty.
func (n *Namespaces) virtualNodes(ctx context.Context, provider string) ([]offv1beta1.VirtualNode, error) {
	var list offv1beta1.VirtualNodeList
	err := n.List(ctx, &list)
	return slices.DeleteFunc(list.Items, func(v offv1beta1.VirtualNode) bool {
		return provider != "" && string(v.Spec.ClusterID) != provider
	}), err
}

// Nodes lists the virtual nodes with a provider, and the namespaces that are offloaded there: one of them has
// their label, or it is closed to them.
func (n *Namespaces) Nodes(ctx context.Context, provider string) (nodes, namespaces []string, err error) {
	if namespaces, err = n.kept(ctx, provider); err != nil {
		return nil, nil, err
	}
	list, err := n.virtualNodes(ctx, provider)
	for _, v := range list {
		nodes = append(nodes, v.Name)
		for key := range v.Spec.Labels {
			if name, ok := strings.CutPrefix(key, labelPrefix); ok {
				namespaces = append(namespaces, name)
			}
		}
	}
	slices.Sort(nodes)
	slices.Sort(namespaces)
	return nodes, slices.Compact(namespaces), err
}

// Mapped lists the namespaces that are mapped at a provider, also by others than Bourse, or are about to be.
func (n *Namespaces) Mapped(ctx context.Context, provider string) ([]string, error) {
	_, names, err := n.Nodes(ctx, provider)
	if err != nil {
		return nil, err
	}
	var list offv1beta1.NamespaceMapList
	err = n.List(ctx, &list, mapsTo(provider))
	for _, m := range list.Items {
		names = slices.AppendSeq(names, maps.Keys(m.Spec.DesiredMapping))
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// ownMaps selects the NamespaceMaps of this cluster's namespaces, mapsTo that at a provider.
func ownMaps() client.MatchingLabels {
	return client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue}
}

func mapsTo(provider string) client.MatchingLabels {
	own := ownMaps()
	own[consts.RemoteClusterID] = provider
	return own
}

// kept lists the namespaces that stay in the map of a provider.
func (n *Namespaces) kept(ctx context.Context, provider string) (out []string, err error) {
	var list offv1beta1.NamespaceMapList
	err = n.List(ctx, &list, mapsTo(provider))
	for _, m := range list.Items {
		out = append(out, keptIn(&m)...)
	}
	return out, err
}

// keptIn lists the namespaces that stay in a map.
func keptIn(o client.Object) []string {
	return slices.DeleteFunc(strings.Split(o.GetAnnotations()[keptNamespaces], ","),
		func(name string) bool { return name == "" })
}

// Labelled lists the providers to which a namespace is offloaded.
func (n *Namespaces) Labelled(ctx context.Context, namespace string) (providers []string, err error) {
	var mapped offv1beta1.NamespaceMapList
	if err := n.List(ctx, &mapped, ownMaps()); err != nil {
		return nil, err
	}
	for _, m := range mapped.Items {
		if slices.Contains(keptIn(&m), namespace) {
			providers = append(providers, m.Labels[consts.RemoteClusterID])
		}
	}
	list, err := n.virtualNodes(ctx, "")
	for _, v := range list {
		if v.Spec.Labels[Label(namespace)] != "" {
			providers = append(providers, string(v.Spec.ClusterID))
		}
	}
	slices.Sort(providers)
	return slices.Compact(providers), err
}

// keptNamespaces is the annotation of a NamespaceMap with the namespaces that policy
// bourse-namespacemap keeps in it.
const keptNamespaces = kept + "-namespaces"

// SetLabels adds and removes labels of namespaces at all virtual nodes with a provider. Those that are closed to a
// namespace lose its label, and the namespace stays mapped: no more of its pods are placed there. Liqo ends a
// namespace there, with its pods and volumes, when it sees one of them without the label. So an
// admission policy keeps each namespace mapped until its label is removed here.
func (n *Namespaces) SetLabels(ctx context.Context, provider string, add, remove []string,
	closed map[string][]string) error {
	if err := n.keep(ctx, provider, add, remove); err != nil {
		return err
	}
	return liqo.Change(ctx, n.Client, &offv1beta1.VirtualNodeList{}, func(o client.Object) {
		v := o.(*offv1beta1.VirtualNode)
		if string(v.Spec.ClusterID) != provider {
			return
		}
		if v.Spec.Labels == nil {
			v.Spec.Labels = map[string]string{}
		}
		for _, name := range add {
			v.Spec.Labels[Label(name)] = "true"
		}
		for _, name := range slices.Concat(remove, closed[v.Name]) {
			delete(v.Spec.Labels, Label(name))
		}
	})
}

// keep adds and removes namespaces that stay in the map of a provider.
func (n *Namespaces) keep(ctx context.Context, provider string, add, remove []string) error {
	return liqo.Change(ctx, n.Client, &offv1beta1.NamespaceMapList{}, func(o client.Object) {
		names := slices.DeleteFunc(append(keptIn(o), add...), func(name string) bool {
			return slices.Contains(remove, name)
		})
		slices.Sort(names)
		joined := strings.Join(slices.Compact(names), ",")
		annotations := labels.Merge(o.GetAnnotations(), labels.Set{keptNamespaces: joined})
		if joined == "" {
			delete(annotations, keptNamespaces)
		}
		o.SetAnnotations(annotations)
	}, mapsTo(provider))
}

// labelSelected gives the virtual nodes that an offloading selects the label of its namespace. It
// reports whether their Nodes have it, too: Liqo compares the selector with the labels of the Node.
func (n *Namespaces) labelSelected(ctx context.Context, o *offv1beta1.NamespaceOffloading) (ready bool, err error) {
	list, err := n.virtualNodes(ctx, "")
	ready = true
	for i := range list {
		v := &list[i]
		if err != nil || !selects(o, string(v.Spec.ClusterID), v.Spec.Labels) {
			continue
		}
		ready = ready && v.Spec.Labels[Label(o.Namespace)] != ""
		if err = n.SetLabels(ctx, string(v.Spec.ClusterID), []string{o.Namespace}, nil, nil); err != nil {
			break
		}
		var node corev1.Node
		if err = n.Get(ctx, client.ObjectKey{Name: v.Name}, &node); err == nil {
			ready = ready && node.Labels[Label(o.Namespace)] != ""
		}
		err = client.IgnoreNotFound(err)
	}
	return ready, err
}

// Cordon keeps new pods off a virtual node, and returns since when: zero if it has no Node. It returns now for a
// Node that the cache does not have yet, and cordons it at the next call.
func (n *Namespaces) Cordon(ctx context.Context, name string, now time.Time) (since time.Time, err error) {
	var node corev1.Node
	err = n.Get(ctx, client.ObjectKey{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		var found corev1.NodeList // the agent may list Nodes, and not get one
		err = n.Reader.List(ctx, &found, client.MatchingFields{"metadata.name": name})
		if err == nil && len(found.Items) > 0 {
			return now, nil
		}
		return time.Time{}, err
	}
	if err != nil {
		return time.Time{}, err
	}
	if since, _ = readLeaving(&node); !since.IsZero() && node.Spec.Unschedulable {
		return since, nil
	}
	return now, kubeobject.Change(ctx, n.Client, &node, func() { markLeaving(&node, now) })
}

// Leaving returns the providers of virtual nodes made by hand that Cordon keeps pods off.
func (n *Namespaces) Leaving(ctx context.Context) (providers []string, err error) {
	var list corev1.NodeList
	err = n.List(ctx, &list, client.HasLabels{leavingLabel})
	for i := range list.Items {
		has := list.Items[i].Labels
		since, _ := readLeaving(&list.Items[i])
		if provider := has[consts.RemoteClusterID]; provider != "" && has[grant.ProviderLabel] == "" && !since.IsZero() {
			providers = append(providers, provider)
		}
	}
	return providers, err
}

// Uncordon lets pods again on a virtual node that Cordon kept them off, unless an admin cordoned it.
func (n *Namespaces) Uncordon(ctx context.Context, name string) error {
	var node corev1.Node
	if err := n.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	return kubeobject.Change(ctx, n.Client, &node, func() {
		if since, admins := readLeaving(&node); !since.IsZero() {
			node.Spec.Unschedulable = node.Spec.Unschedulable && admins
			delete(node.Labels, leavingLabel)
		}
	})
}
