package offload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// Reflection is what Liqo copies of all namespaces that are mapped at a provider. The virtual nodes with a
// provider share it: one of their virtual kubelets, which Liqo elects, copies for all of them. So Reflect is the
// laxest of their options, whoever made them.
type Reflection struct {
	api.Reflect
	// Nodes are the virtual nodes with the provider. Without one nothing is copied.
	Nodes []string
}

// Reflection returns what Liqo copies to a provider, by the options with which the virtual kubelets run. r reads
// the virtual nodes.
func (n *Namespaces) Reflection(ctx context.Context, r client.Reader, provider string) (out Reflection, err error) {
	var list offv1beta1.VirtualNodeList
	if err := r.List(ctx, &list); err != nil {
		return out, err
	}
	var all []api.Reflect
	for i := range list.Items {
		v := &list.Items[i]
		if string(v.Spec.ClusterID) != provider {
			continue
		}
		args, err := arguments(ctx, n.Reader, v)
		if err != nil {
			return out, err
		}
		all, out.Nodes = append(all, readReflect(args)), append(out.Nodes, v.Name)
	}
	slices.Sort(out.Nodes)
	out.Reflect = combine(all, laxer)
	return out, nil
}

// Admits returns why a namespace that may be copied as wished cannot be mapped at the provider: more of it would
// be copied. Nil: it can. Errors: InUse.
func (r Reflection) Admits(provider, namespace string, wished api.Reflect) error {
	if r.AtLeastAsStrict(wished) {
		return nil
	}
	return api.Errorf(api.CodeInUse, "the virtual nodes with %s copy %s; namespace %s may be copied with %s",
		provider, describe(r.Reflect), namespace, describe(wished)).
		Fix("exclude %s from the request, allow as much by offload.reflect, or end what made the virtual nodes %s",
			provider, strings.Join(r.Nodes, ", "))
}

// AtLeastAsStrict reports whether no more is copied than is wished.
func (r Reflection) AtLeastAsStrict(wished api.Reflect) bool {
	return len(r.Nodes) == 0 || Strictest([]api.Reflect{r.Reflect, wished}) == withDefaults(r.Reflect)
}

// Covers reports whether all is copied that is wished.
func (r Reflection) Covers(wished api.Reflect) bool {
	return len(r.Nodes) == 0 || Strictest([]api.Reflect{r.Reflect, wished}) == withDefaults(wished)
}

// Laxest returns the laxest reflection that a further virtual node may have: while there is one, no more is
// copied than before, as namespaces that are mapped have agreed to no more.
func (r Reflection) Laxest(wished api.Reflect) api.Reflect {
	if len(r.Nodes) == 0 {
		return withDefaults(wished)
	}
	return Strictest([]api.Reflect{r.Reflect, wished})
}

// arguments returns those with which the virtual kubelet of a virtual node runs; nil: they are not known. Liqo v1.2
// writes them into the virtual node when that is made. A later one takes them from its options at any time.
func arguments(ctx context.Context, r client.Reader, v *offv1beta1.VirtualNode) (args []string, err error) {
	if t := v.Spec.Template; t != nil {
		for _, c := range t.Spec.Template.Spec.Containers {
			args = append(args, c.Args...)
		}
		return args, nil
	}
	var options offv1beta1.VkOptionsTemplate
	ref := v.Spec.VkOptionsTemplateRef
	if ref == nil {
		return nil, nil
	}
	err = r.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &options)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // not known: as Liqo's defaults
	}
	for kind, c := range options.Spec.ReflectorsConfig {
		args = append(args, fmt.Sprintf("--%s-reflection-workers=%d", kind, c.NumWorkers),
			fmt.Sprintf("--%s-reflection-type=%s", kind, c.Type))
	}
	return append(args, options.Spec.ExtraArgs...), err
}

// readReflect returns what a virtual kubelet with these arguments copies. The last one of a name counts. What
// they do not say is copied, as is Liqo's default.
func readReflect(args []string) api.Reflect {
	values := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		values[name] = value
	}
	policy := func(kind, typed string) api.ReflectPolicy {
		workers, err := strconv.Atoi(values["--"+kind+"-reflection-workers"])
		switch {
		case err == nil && workers == 0:
			return api.ReflectNone
		case values["--"+typed+"-reflection-type"] == string(offv1beta1.AllowList):
			return api.ReflectAllowList
		}
		return api.ReflectAll
	}
	return api.Reflect{
		Secrets: policy("secret", "secret"), ConfigMaps: policy("configmap", "configmap"),
		Services: laxer(policy("service", "service"), policy("endpointslice", "service")),
	}
}

// withDefaults sets the defaults. Only Secrets that are marked for it go to the provider.
func withDefaults(r api.Reflect) api.Reflect {
	r.Secrets = cmp.Or(r.Secrets, api.ReflectAllowList)
	r.ConfigMaps = cmp.Or(r.ConfigMaps, api.ReflectAll)
	r.Services = cmp.Or(r.Services, api.ReflectAll)
	return r
}

// byStrictness are the policies, the laxest first.
var byStrictness = []api.ReflectPolicy{api.ReflectAll, api.ReflectAllowList, api.ReflectNone}

func stricter(a, b api.ReflectPolicy) api.ReflectPolicy {
	return byStrictness[max(slices.Index(byStrictness, a), slices.Index(byStrictness, b), 0)]
}

func laxer(a, b api.ReflectPolicy) api.ReflectPolicy {
	return byStrictness[max(min(slices.Index(byStrictness, a), slices.Index(byStrictness, b)), 0)]
}

// Strictest returns the strictest reflection of several requests that share a virtual node.
func Strictest(all []api.Reflect) api.Reflect { return combine(all, stricter) }

// combine returns the choice of each kind; the defaults of none.
func combine(all []api.Reflect, choose func(a, b api.ReflectPolicy) api.ReflectPolicy) api.Reflect {
	if len(all) == 0 {
		return withDefaults(api.Reflect{})
	}
	r := withDefaults(all[0])
	for _, reflect := range all[1:] {
		reflect = withDefaults(reflect)
		r = api.Reflect{Secrets: choose(r.Secrets, reflect.Secrets),
			ConfigMaps: choose(r.ConfigMaps, reflect.ConfigMaps), Services: choose(r.Services, reflect.Services)}
	}
	return r
}

// Describe says in one sentence what is copied to a provider, and how that differs from what a request wishes.
func (r Reflection) Describe(provider string, wished api.Reflect) string {
	copied := r.Laxest(wished)
	if len(r.Nodes) > 0 {
		copied = r.Reflect
	}
	text := fmt.Sprintf("%s gets %s", provider, describe(copied))
	switch {
	case copied == withDefaults(wished):
	case r.AtLeastAsStrict(wished):
		text += "; the request allows " + describe(wished) + ", but other requests that share the virtual nodes with " +
			provider + " do not"
	default:
		text += "; the request allows only " + describe(wished) + ": release it, or end what made the virtual nodes " +
			strings.Join(r.Nodes, ", ")
	}
	return text + `; AllowList means those with the annotation liqo.io/allow-reflection: "true"`
}

func describe(r api.Reflect) string {
	r = withDefaults(r)
	return fmt.Sprintf("Secrets: %s, ConfigMaps: %s, Services: %s", r.Secrets, r.ConfigMaps, r.Services)
}
