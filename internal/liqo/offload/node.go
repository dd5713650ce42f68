package offload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// makeNode makes the VirtualNode of a slice that is granted, as Liqo would but with options of its own: Liqo alone would take its default
// ones, by which every Secret of a namespace goes to the provider. Once its Node stands, Liqo is told to keep it: from then on it looks at
// it again with each change, which on the way there is in vain.
func (s *Slices) makeNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider string, reflect api.Reflect, stands bool) error {
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
		before := slice.DeepCopy()
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, consts.CreateVirtualNodeAnnotation, "true")
		return s.Patch(ctx, slice, client.MergeFrom(before))
	}
	var identities authv1beta1.IdentityList
	if err := s.List(ctx, &identities, client.InNamespace(slice.Namespace), client.MatchingLabels{consts.ResourceSliceNameLabelKey: slice.Name}); err != nil {
		return err
	}
	if len(identities.Items) == 0 || identities.Items[0].Status.KubeconfigSecretRef == nil {
		return nil // its coming brings us here again
	}
	options, err := s.prepared(ctx, reflect)
	if err != nil {
		return err
	}
	node := newNode(slice, provider)
	node.Spec.KubeconfigSecretRef = identities.Items[0].Status.KubeconfigSecretRef
	node.Spec.VkOptionsTemplateRef = &corev1.ObjectReference{Namespace: s.LiqoNamespace, Name: options}
	if err := controllerutil.SetControllerReference(slice, node, s.Scheme()); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(s.Create(ctx, node))
}

// made says whether there is a VirtualNode of a slice. Where it stands the API server is asked: told to keep one that is gone, Liqo would
// make it anew, with its default options.
func (s *Slices) made(ctx context.Context, slice *authv1beta1.ResourceSlice, stands bool) (bool, error) {
	if !stands {
		return s.have(ctx, client.ObjectKeyFromObject(slice), &offv1beta1.VirtualNode{})
	}
	var list offv1beta1.VirtualNodeList
	err := s.Reader.List(ctx, &list, client.InNamespace(slice.Namespace))
	return slices.ContainsFunc(list.Items, func(n offv1beta1.VirtualNode) bool { return n.Name == slice.Name && n.DeletionTimestamp == nil }), err
}

// newNode is the VirtualNode that Liqo makes of a slice: with another it would start the virtual kubelet anew once it keeps it.
func newNode(slice *authv1beta1.ResourceSlice, provider string) *offv1beta1.VirtualNode {
	given := &slice.Status
	node := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: slice.Name,
			Labels: liqo.Labels(provider, consts.ResourceSliceNameLabelKey, slice.Name),
		},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID: liqov1beta1.ClusterID(provider), ResourceQuota: corev1.ResourceQuotaSpec{Hard: given.Resources},
			Labels:         labels.Merge(labels.Set{consts.RemoteClusterID: provider}, given.NodeLabels),
			StorageClasses: given.StorageClasses, IngressClasses: given.IngressClasses, LoadBalancerClasses: given.LoadBalancerClasses,
		},
	}
	if len(given.NodeSelector) > 0 {
		node.Spec.OffloadingPatch = &offv1beta1.OffloadingPatch{NodeSelector: given.NodeSelector}
	}
	return node
}

const defaultOptions = "virtual-kubelet-default"

// template is the VkOptionsTemplate that was found or made last.
type template struct {
	of   api.Reflect
	name string
	at   time.Time
}

// templateLasts is how long it is not looked at again.
const templateLasts = 2 * time.Second

// prepared returns the name of the VkOptionsTemplate for what is reflected. One that was made a moment ago, when its slice was, is not
// looked at again: a virtual node waits for it.
func (s *Slices) prepared(ctx context.Context, reflect api.Reflect) (string, error) {
	if t := s.template; t.of == reflect && time.Since(t.at) < templateLasts {
		return t.name, nil
	}
	name, err := s.options(ctx, reflect)
	if err == nil {
		s.template = template{reflect, name, time.Now()}
	}
	return name, err
}

// options makes the VkOptionsTemplate for what is reflected, from the cluster's default one, and returns its name.
func (s *Slices) options(ctx context.Context, reflect api.Reflect) (string, error) {
	var from offv1beta1.VkOptionsTemplate
	if err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.LiqoNamespace, Name: defaultOptions}, &from); apierrors.IsNotFound(err) {
		return "", api.Errorf(api.CodeUnavailable, "Liqo has no VkOptionsTemplate %s/%s", s.LiqoNamespace, defaultOptions).Fix("install Liqo with its chart")
	} else if err != nil {
		return "", err
	}
	reflect = withDefaults(reflect)
	name := strings.ToLower(fmt.Sprintf("bourse-%s-%s-%s", reflect.Secrets, reflect.ConfigMaps, reflect.Services))
	want := from.Spec.DeepCopy()
	want.ReflectorsConfig = reflectors(from.Spec.ReflectorsConfig, reflect)
	want.ExtraArgs = append(slices.DeleteFunc(want.ExtraArgs, func(a string) bool { return strings.HasPrefix(a, "--enable-apiserver-support") }),
		"--enable-apiserver-support=false") // the provider's pods have no business at the consumer's API server
	have := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.LiqoNamespace, Name: name}}
	err := s.Reader.Get(ctx, client.ObjectKeyFromObject(have), have)
	switch {
	case apierrors.IsNotFound(err):
		have.Labels, have.Spec = liqo.Managed(), *want
		return name, client.IgnoreAlreadyExists(s.Create(ctx, have))
	case err != nil || equality.Semantic.DeepEqual(have.Spec, *want) || !liqo.Ours(have):
		return name, err
	}
	before := have.DeepCopy()
	have.Spec = *want
	return name, s.Patch(ctx, have, client.MergeFrom(before))
}

// withDefaults: Secrets go to the provider only if they say so themselves.
func withDefaults(r api.Reflect) api.Reflect {
	if r.Secrets == "" {
		r.Secrets = api.ReflectAllowList
	}
	if r.ConfigMaps == "" {
		r.ConfigMaps = api.ReflectAll
	}
	if r.Services == "" {
		r.Services = api.ReflectAll
	}
	return r
}

// reflectors changes those of the default that a request may decide about. One without workers is off.
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
				c.Type = out[kind].Type // what follows the first is of its objects
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

// Strictest is the reflection of several requests that share a virtual node: what none of them lets go does not go.
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
		r = api.Reflect{Secrets: stricter(r.Secrets, one.Secrets), ConfigMaps: stricter(r.ConfigMaps, one.ConfigMaps), Services: stricter(r.Services, one.Services)}
	}
	return r
}
