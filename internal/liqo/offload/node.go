package offload

import (
	"cmp"
	"context"
	"fmt"
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

const defaultOptions = "virtual-kubelet-default"

// options makes the VkOptionsTemplate for a reflection from the cluster's default one and returns its name.
func (s *Slices) options(ctx context.Context, as Node) (string, error) {
	var from offv1beta1.VkOptionsTemplate
	if err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.LiqoNamespace, Name: defaultOptions},
		&from); apierrors.IsNotFound(err) {
		return "", api.Errorf(api.CodeUnavailable, "Liqo has no VkOptionsTemplate %s/%s", s.LiqoNamespace, defaultOptions).
			Fix("install Liqo with its chart")
	} else if err != nil {
		return "", err
	}
	reflect := withDefaults(as.Reflect)
	name := strings.ToLower(fmt.Sprintf("bourse-%s-%s-%s", reflect.Secrets, reflect.ConfigMaps, reflect.Services))
	want := from.Spec.DeepCopy()
	want.ReflectorsConfig = reflectors(from.Spec.ReflectorsConfig, reflect)
	want.ExtraArgs = append(slices.DeleteFunc(want.ExtraArgs,
		func(a string) bool { return strings.HasPrefix(a, "--enable-apiserver-support") }),
		"--enable-apiserver-support=false") // pods at the provider must not reach the consumer's API server
	switch {
	case as.Hub:
		name += "-hub"
		event := want.ReflectorsConfig["event"]
		event.NumWorkers = 0
		want.ReflectorsConfig["event"] = event
	case as.NoIP:
		name += "-noip"
	}
	if as.Hub || as.NoIP {
		want.ExtraArgs = append(want.ExtraArgs, "--disable-ip-reflection=true")
	}
	have := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.LiqoNamespace, Name: name}}
	err := s.Reader.Get(ctx, client.ObjectKeyFromObject(have), have)
	switch {
	case apierrors.IsNotFound(err):
		have.Labels, have.Spec = liqo.Managed(), *want
		return name, client.IgnoreAlreadyExists(s.Create(ctx, have))
	case err != nil || !liqo.IsOurs(have):
		return name, err
	}
	return name, kubeobject.Change(ctx, s.Client, have, func() { have.Spec = *want })
}

// withDefaults sets the defaults. Only Secrets that are marked for it go to the provider.
func withDefaults(r api.Reflect) api.Reflect {
	r.Secrets = cmp.Or(r.Secrets, api.ReflectAllowList)
	r.ConfigMaps = cmp.Or(r.ConfigMaps, api.ReflectAll)
	r.Services = cmp.Or(r.Services, api.ReflectAll)
	return r
}

// reflectors changes the reflectors that a request may configure. A reflector without workers is off.
func reflectors(from map[string]offv1beta1.ReflectorConfig, r api.Reflect) map[string]offv1beta1.ReflectorConfig {
	out := maps.Clone(from)
	if out == nil {
		out = map[string]offv1beta1.ReflectorConfig{}
	}
	set := func(policy api.ReflectPolicy, kinds ...string) {
		for i, kind := range kinds {
			c := out[kind]
			switch policy {
			case api.ReflectNone:
				c.NumWorkers = 0
			case api.ReflectAllowList:
				c.NumWorkers, c.Type = max(c.NumWorkers, 1), offv1beta1.AllowList
			default:
				c.NumWorkers, c.Type = max(c.NumWorkers, 1), offv1beta1.DenyList
			}
			if i > 0 && policy != api.ReflectNone {
				c.Type = out[kind].Type // the further kinds belong to objects of the first
			}
			out[kind] = c
		}
	}
	set(r.Secrets, "secret")
	set(r.ConfigMaps, "configmap")
	set(r.Services, "service", "endpointslice")
	set(api.ReflectNone, "serviceaccount")
	return out
}

// Strictest returns the strictest reflection of several requests that share a virtual node.
func Strictest(all []api.Reflect) (r api.Reflect) {
	order := []api.ReflectPolicy{"", api.ReflectAll, api.ReflectAllowList, api.ReflectNone}
	stricter := func(a, b api.ReflectPolicy) api.ReflectPolicy {
		return order[max(slices.Index(order, a), slices.Index(order, b))]
	}
	for i, one := range all {
		if one = withDefaults(one); i == 0 {
			r = one
			continue
		}
		r = api.Reflect{Secrets: stricter(r.Secrets, one.Secrets),
			ConfigMaps: stricter(r.ConfigMaps, one.ConfigMaps), Services: stricter(r.Services, one.Services)}
	}
	return r
}
