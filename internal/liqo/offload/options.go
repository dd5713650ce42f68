package offload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

const defaultOptions = "virtual-kubelet-default"

// options makes the VkOptionsTemplate of a virtual node from the cluster's default one, and returns its name, a
// digest of what it says. None is ever changed, because a later Liqo than v1.2 brings a change to nodes that run. None is
// deleted before Bourse is uninstalled: the right to delete them would be one to delete Liqo's own.
// Errors: Unavailable.
func (s *Slices) options(ctx context.Context, as Node) (string, error) {
	var from offv1beta1.VkOptionsTemplate
	err := s.Reader.Get(ctx, client.ObjectKey{Namespace: s.LiqoNamespace, Name: defaultOptions}, &from)
	if apierrors.IsNotFound(err) {
		return "", api.Errorf(api.CodeUnavailable, "Liqo has no VkOptionsTemplate %s/%s", s.LiqoNamespace, defaultOptions).
			Fix("install Liqo with its chart")
	} else if err != nil {
		return "", err
	}
	want := optionsOf(&from.Spec, as)
	name, err := nameOptions(want)
	if err != nil {
		return "", err
	}
	have := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.LiqoNamespace, Name: name}}
	err = s.Reader.Get(ctx, client.ObjectKeyFromObject(have), have)
	switch {
	case apierrors.IsNotFound(err):
		have.Labels, have.Spec = liqo.Managed(), *want
		return name, client.IgnoreAlreadyExists(s.Create(ctx, have))
	case err != nil:
		return name, err
	case !equality.Semantic.DeepEqual(have.Spec.ReflectorsConfig, want.ReflectorsConfig) ||
		!equality.Semantic.DeepEqual(have.Spec.ExtraArgs, want.ExtraArgs):
		return name, api.Errorf(api.CodeUnavailable, "the VkOptionsTemplate %s/%s was changed", s.LiqoNamespace, name).
			Fix("delete it, and the agent makes it again: kubectl -n %s delete vkoptionstemplate %s", s.LiqoNamespace, name)
	}
	return name, nil
}

// followsOptions reports whether Liqo runs the virtual kubelet of a virtual node by its options at any time. Liqo v1.2
// copies the options into the virtual node when that is made, and reads the copy. A later Liqo removes the copy.
func followsOptions(v *offv1beta1.VirtualNode) bool { return v.Spec.Template == nil }

// optionsNow returns the name of the options that a virtual node that follows its options should have: made from the
// cluster's default ones of now, with the image and the arguments of this Liqo. What is copied to the provider stays,
// as namespaces that are mapped have agreed to it.
func (s *Slices) optionsNow(ctx context.Context, v *offv1beta1.VirtualNode, as Node) (string, error) {
	args, err := arguments(ctx, s.Reader, v)
	if err != nil {
		return "", err
	}
	if args != nil {
		as.Reflect = readReflect(args)
	}
	return s.options(ctx, as)
}

// optionsRef names options.
func (s *Slices) optionsRef(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Namespace: s.LiqoNamespace, Name: name}
}

// optionsOf returns the options of a virtual node, made from the default ones.
func optionsOf(from *offv1beta1.VkOptionsTemplateSpec, as Node) *offv1beta1.VkOptionsTemplateSpec {
	want := from.DeepCopy()
	want.ReflectorsConfig = reflectors(from.ReflectorsConfig, withDefaults(as.Reflect))
	want.ExtraArgs = append(slices.DeleteFunc(want.ExtraArgs,
		func(a string) bool { return strings.HasPrefix(a, "--enable-apiserver-support") }),
		"--enable-apiserver-support=false") // pods at the provider must not reach the consumer's API server
	if as.Hub {
		event := want.ReflectorsConfig["event"]
		event.NumWorkers = 0
		want.ReflectorsConfig["event"] = event
	}
	want.ExtraArgs = setAddresses(want.ExtraArgs, as)
	return want
}

// noAddresses is the argument of a virtual kubelet that leaves out the addresses of pods.
const noAddresses = "--disable-ip-reflection=true"

// hidesAddresses reports whether the addresses of pods at the provider are left out.
func (as Node) hidesAddresses() bool { return as.Hub || as.NoIP }

// setAddresses adds the argument that leaves out the addresses of pods, or removes it.
func setAddresses(args []string, as Node) []string {
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--disable-ip-reflection") })
	if as.hidesAddresses() {
		args = append(args, noAddresses)
	}
	return args
}

// nameOptions returns the name of a VkOptionsTemplate.
func nameOptions(o *offv1beta1.VkOptionsTemplateSpec) (string, error) {
	text, err := json.Marshal(o)
	sum := sha256.Sum256(text)
	return "bourse-" + hex.EncodeToString(sum[:16]), err
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
