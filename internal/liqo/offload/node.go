package offload

import (
	"context"
	"maps"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// keepNode creates the VirtualNode of a slice, with our options, and keeps it what the slice grants. Liqo's own
// creator would use its default options, which send every Secret of a namespace to the provider, and would copy
// each label that the provider chooses, for good. granted says that the slice has all that is reserved: a node is
// not made for less.
func (s *Slices) keepNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider string,
	want api.Resources, as Node, granted bool) error {
	if granted {
		if err := s.keep(ctx, slice.Namespace, slice.Name, false); err != nil {
			return err
		}
	}
	var have offv1beta1.VirtualNode
	err := s.Get(ctx, client.ObjectKeyFromObject(slice), &have)
	switch {
	case apierrors.IsNotFound(err) && granted:
		return s.makeNode(ctx, slice, provider, want, as)
	case err != nil || have.DeletionTimestamp != nil || !liqo.IsOurs(&have):
		return client.IgnoreNotFound(err)
	}
	node, options := newNode(slice, provider, want, as), ""
	if followsOptions(&have) {
		if options, err = s.optionsNow(ctx, &have, as); err != nil {
			return err
		}
	}
	return kubeobject.Change(ctx, s.Client, &have, func() {
		update(&have, node, slice.Status.NodeLabels, as.byLiqo)
		if options != "" {
			have.Spec.VkOptionsTemplateRef = s.optionsRef(options)
		}
		followNetwork(&have, as)
	})
}

// makeNode creates the VirtualNode of a granted slice, once its Identity has credentials.
func (s *Slices) makeNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider string,
	want api.Resources, as Node) error {
	var identities authv1beta1.IdentityList
	if err := s.List(ctx, &identities, client.InNamespace(slice.Namespace),
		client.MatchingLabels{consts.ResourceSliceNameLabelKey: slice.Name}); err != nil {
		return err
	}
	if len(identities.Items) == 0 || identities.Items[0].Status.KubeconfigSecretRef == nil {
		return nil // the Identity's creation triggers the next call
	}
	options, err := s.options(ctx, as)
	if err != nil {
		return err
	}
	node := newNode(slice, provider, want, as)
	node.Spec.KubeconfigSecretRef = identities.Items[0].Status.KubeconfigSecretRef
	node.Spec.VkOptionsTemplateRef = s.optionsRef(options)
	if err := controllerutil.SetControllerReference(slice, node, s.Scheme()); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(s.Create(ctx, node))
}

// update makes a VirtualNode what it should be. It keeps the namespaces, which [Namespaces.SetLabels] adds and
// removes, and the labels of admins. sent are the labels that the provider sends; byLiqo says that Liqo's creator
// wrote them all.
func update(have, should *offv1beta1.VirtualNode, sent map[string]string, byLiqo bool) {
	noted, known := have.Annotations[sentLabels]
	written := strings.Split(noted, ",")
	if byLiqo || !known {
		written = slices.AppendSeq(written, maps.Keys(sent))
	}
	all, own := labels.Set{}, []string{}
	for key, value := range have.Spec.Labels {
		if strings.HasPrefix(key, labelPrefix) || !slices.Contains(written, key) && !isReserved(key) {
			all[key] = value
		}
	}
	for key, value := range should.Spec.Labels {
		_, isAdmins := all[key]
		switch {
		case strings.HasPrefix(key, labelPrefix):
		case !slices.Contains(fromProvider, key):
			all[key] = value
		case !isAdmins:
			all[key], own = value, append(own, key)
		}
	}
	noteSent(have, own)
	to, from := &have.Spec, &should.Spec
	to.Labels, to.ResourceQuota = all, from.ResourceQuota
	to.StorageClasses, to.IngressClasses = from.StorageClasses, from.IngressClasses
	to.LoadBalancerClasses = from.LoadBalancerClasses
	switch {
	case to.OffloadingPatch != nil: // Liqo's webhook writes the other fields
		to.OffloadingPatch.NodeSelector = nil
		if from.OffloadingPatch != nil {
			to.OffloadingPatch.NodeSelector = from.OffloadingPatch.NodeSelector
		}
	case from.OffloadingPatch != nil:
		to.OffloadingPatch = from.OffloadingPatch
	}
}

// sentLabels is the annotation of a VirtualNode with the keys of the labels that the agent wrote as its provider
// sends them. It removes no others: they are an admin's.
const sentLabels = api.Group + "/sent-labels"

// noteSent notes at a VirtualNode which labels the agent wrote as the provider sends them.
func noteSent(v *offv1beta1.VirtualNode, keys []string) {
	slices.Sort(keys)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, sentLabels, strings.Join(keys, ","))
}

// followNetwork lets a virtual node have the addresses of its pods, or not. Of the arguments of a virtual kubelet only
// this one follows what changes later: a network may come or go. Liqo starts another virtual kubelet then, which also
// reads how the network maps addresses. Pods run on. Where a virtual kubelet follows its options, this does nothing.
func followNetwork(have *offv1beta1.VirtualNode, as Node) {
	if followsOptions(have) {
		return
	}
	for i := range have.Spec.Template.Spec.Template.Spec.Containers {
		c := &have.Spec.Template.Spec.Template.Spec.Containers[i]
		if slices.Contains(c.Args, noAddresses) != as.hidesAddresses() {
			c.Args = setAddresses(slices.Clone(c.Args), as)
		}
	}
}

// newNode returns the VirtualNode of a slice. It has no more than what is asked for (want), even if the provider
// grants more: its scheduler, or a hub's customers, would rely on what nobody signed.
func newNode(slice *authv1beta1.ResourceSlice, provider string, want api.Resources, as Node) *offv1beta1.VirtualNode {
	given := &slice.Status
	on, _ := nodeLabels(given.NodeLabels, provider, as)
	for _, name := range as.Namespaces {
		on[Label(name)] = "true"
	}
	node := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: slice.Name,
			Labels: liqo.Labels(provider, consts.ResourceSliceNameLabelKey, slice.Name),
		},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID:      liqov1beta1.ClusterID(provider),
			ResourceQuota:  corev1.ResourceQuotaSpec{Hard: grant.AtMost(given.Resources, want)},
			Labels:         on,
			StorageClasses: given.StorageClasses, IngressClasses: given.IngressClasses,
			LoadBalancerClasses: given.LoadBalancerClasses,
		},
	}
	noteSent(node, slices.DeleteFunc(slices.Clone(fromProvider), func(key string) bool { return !on.Has(key) }))
	if as.Burst {
		node.Spec.Taints = []corev1.Taint{{Key: api.BurstTaint, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	if len(given.NodeSelector) > 0 {
		node.Spec.OffloadingPatch = &offv1beta1.OffloadingPatch{NodeSelector: given.NodeSelector}
	}
	return node
}

// fromProvider are the labels of its virtual node that a provider chooses. Liqo itself chooses others, such as the
// node's host name.
var fromProvider = []string{
	corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelTopologyRegion, corev1.LabelTopologyZone,
}

// nodeLabels returns the labels of a virtual node, given those that its provider sends, and the keys of what the
// provider may not choose: schedulers, hubs, Liqo and this agent act by labels.
func nodeLabels(sent map[string]string, provider string, as Node) (on labels.Set, leftOut []string) {
	on = labels.Set{consts.RemoteClusterID: provider, grant.ProviderLabel: provider}
	if as.ProviderPool != "" {
		on[grant.PoolLabel] = as.ProviderPool
	}
	if as.Pool != "" {
		on[api.VirtualNodePoolLabel] = as.Pool
	}
	for key, value := range sent {
		switch now, ok := on[key]; {
		case ok && now == value: // what the provider says is true
		case slices.Contains(fromProvider, key) && len(validation.IsValidLabelValue(value)) == 0:
			on[key] = value
		default:
			leftOut = append(leftOut, key)
		}
	}
	slices.Sort(leftOut)
	return on, leftOut
}

// isReserved reports whether a label of a virtual node is one that Liqo or Bourse reads.
func isReserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	under := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
	return key == "type" || under(api.Group) || under("liqo.io")
}

// PoolNode returns the Node of a virtual node of a VirtualNodePool, as this Liqo makes it with any provider.
func PoolNode(by liqo.Installation, pool string, namespaces []string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		consts.TypeLabel: consts.TypeNode, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		api.VirtualNodePoolLabel: pool,
	}}}
	if by.LabelsNodes() {
		node.Labels["type"] = "virtual-kubelet"
	}
	for _, name := range namespaces {
		node.Labels[Label(name)] = "true"
	}
	node.Spec.Taints = []corev1.Taint{{
		Key: consts.VirtualNodeTolerationKey, Value: "true", Effect: corev1.TaintEffectNoExecute,
	}}
	return node
}
