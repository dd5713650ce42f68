package offload

import (
	"context"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// makeNode creates the VirtualNode of a granted slice, as Liqo would, but with our options. Liqo's
// default options send every Secret of a namespace to the provider. Once the Node is Ready, an
// annotation makes Liqo maintain the VirtualNode. Earlier, Liqo's updates would only delay the node.
func (s *Slices) makeNode(ctx context.Context, slice *authv1beta1.ResourceSlice,
	provider string, as Node, stands bool) error {
	if err := s.keep(ctx, slice.Namespace, slice.Name, false); err != nil {
		return err
	}
	if slice.Annotations[consts.CreateVirtualNodeAnnotation] == "true" {
		return nil
	}
	made, err := s.made(ctx, slice, stands)
	switch {
	case err != nil || made && !stands:
		return err
	case made:
		return kubeobject.Change(ctx, s.Client, slice, func() {
			metav1.SetMetaDataAnnotation(&slice.ObjectMeta, consts.CreateVirtualNodeAnnotation, "true")
		})
	}
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
	node := newNode(slice, provider, as)
	node.Spec.KubeconfigSecretRef = identities.Items[0].Status.KubeconfigSecretRef
	node.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Namespace: s.LiqoNamespace, Name: options}
	if err := controllerutil.SetControllerReference(slice, node, s.Scheme()); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(s.Create(ctx, node))
}

// made reports whether a slice has a VirtualNode. If its Node is Ready, made reads from the API
// server: if Liqo maintained a VirtualNode that is gone, it would recreate it with its default options.
func (s *Slices) made(ctx context.Context, slice *authv1beta1.ResourceSlice, stands bool) (bool, error) {
	if !stands {
		return s.have(ctx, client.ObjectKeyFromObject(slice), &offv1beta1.VirtualNode{})
	}
	var list offv1beta1.VirtualNodeList
	err := s.Reader.List(ctx, &list, client.InNamespace(slice.Namespace))
	return slices.ContainsFunc(list.Items, func(n offv1beta1.VirtualNode) bool {
		return n.Name == slice.Name &&
			n.DeletionTimestamp == nil
	}), err
}

// newNode returns the VirtualNode that Liqo would make for a slice. If it differed, Liqo would
// restart the virtual kubelet once it maintains it. Liqo keeps labels that it did not set.
func newNode(slice *authv1beta1.ResourceSlice, provider string, as Node) *offv1beta1.VirtualNode {
	given, on := &slice.Status, labels.Set{consts.RemoteClusterID: provider}
	for key, value := range given.NodeLabels {
		if !strings.HasPrefix(key, labelPrefix) && key != consts.RemoteClusterID { // the provider does not choose namespaces
			on[key] = value
		}
	}
	for _, name := range as.Namespaces {
		on[Label(name)] = "true"
	}
	if delete(on, api.VirtualNodePoolLabel); as.Pool != "" {
		on[api.VirtualNodePoolLabel] = as.Pool
	}
	node := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: slice.Name,
			Labels: liqo.Labels(provider, consts.ResourceSliceNameLabelKey, slice.Name),
		},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: liqov1beta1.ClusterID(provider), ResourceQuota: corev1.ResourceQuotaSpec{Hard: given.Resources},
			Labels:         on,
			StorageClasses: given.StorageClasses, IngressClasses: given.IngressClasses,
			LoadBalancerClasses: given.LoadBalancerClasses,
		},
	}
	if as.Burst {
		node.Spec.Taints = []corev1.Taint{{Key: api.BurstTaint, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	if len(given.NodeSelector) > 0 {
		node.Spec.OffloadingPatch = &offv1beta1.OffloadingPatch{NodeSelector: given.NodeSelector}
	}
	return node
}

// PoolNode returns the Node of a virtual node of a VirtualNodePool, as Liqo makes it with any provider.
func PoolNode(pool string, namespaces []string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		consts.TypeLabel: consts.TypeNode, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		api.VirtualNodePoolLabel: pool,
	}}}
	for _, name := range namespaces {
		node.Labels[Label(name)] = "true"
	}
	node.Spec.Taints = []corev1.Taint{{
		Key: consts.VirtualNodeTolerationKey, Value: "true", Effect: corev1.TaintEffectNoExecute,
	}}
	return node
}
