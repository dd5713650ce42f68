package offload

import (
	"context"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// A Node that the cache does not have yet has just begun to leave: it is not one that is gone.
func TestANodeThatTheCacheLacks(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-general"}}
	now := time.Unix(1_000_000, 0)
	n := &Namespaces{Client: fake.NewClientBuilder().Build(), Reader: fake.NewClientBuilder().WithObjects(node).
		WithIndex(node, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()}
	if since, err := n.Cordon(t.Context(), node.Name, now); err != nil || !since.Equal(now) {
		t.Errorf("it leaves since %s, %v", since, err)
	}
	if since, err := n.Cordon(t.Context(), "gone", now); err != nil || !since.IsZero() {
		t.Errorf("one that is gone leaves since %s, %v", since, err)
	}
}

// What a virtual kubelet that follows its options copies to its provider stays as it is, whatever is asked for later.
func TestWhatIsCopiedStays(t *testing.T) {
	kinds := runtime.NewScheme()
	if err := offv1beta1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	template := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: defaultOptions}}
	c := fake.NewClientBuilder().WithScheme(kinds).WithObjects(template).Build()
	s := &Slices{Client: c, Reader: c, LiqoNamespace: "liqo"}
	none := Node{Reflect: api.Reflect{ConfigMaps: api.ReflectNone}}
	first, err := s.options(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	v := &offv1beta1.VirtualNode{Spec: offv1beta1.VirtualNodeSpec{VkOptionsTemplateRef: s.optionsRef(first)}}
	for name, c := range map[string]struct{ as, want Node }{
		"more is asked for": {Node{}, none},
		"less is asked for": {Node{Reflect: api.Reflect{ConfigMaps: api.ReflectNone, Services: api.ReflectNone}}, none},
		"no network":        {Node{NoIP: true}, Node{NoIP: true, Reflect: none.Reflect}},
	} {
		want, err := s.options(t.Context(), c.want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.optionsNow(t.Context(), v, c.as); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}

// The cache does not have a slice yet that was just made. That is no error.
func TestASliceThatTheCacheLacks(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgo.AddToScheme, authv1beta1.AddToScheme, offv1beta1.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	template := &offv1beta1.VkOptionsTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: defaultOptions}}
	c := fake.NewClientBuilder().WithScheme(kinds).WithObjects(template, liqo.NewTenantNamespace("milan")).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch,
			key client.ObjectKey, o client.Object, how ...client.GetOption) error {
			if _, ok := o.(*authv1beta1.ResourceSlice); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "resourceslices"}, key.Name)
			}
			return c.Get(ctx, key, o, how...)
		}}).Build()
	s := &Slices{Client: c, Reader: c, LiqoNamespace: "liqo"}
	for range 2 {
		if _, err := s.Ensure(t.Context(), "milan", "rome-general", nil, Node{}); err != nil {
			t.Error(err)
		}
	}
}

// `liqoctl peer --multi-virtual-node` of a Liqo after 1.2 makes a slice for each node of a provider. These are not ours.
func TestASliceForANodeOfTheProviderIsNotOurs(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgo.AddToScheme, authv1beta1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	namespace := liqo.NewTenantNamespace("milan")
	ours := NewSlice(namespace.Name, "milan", "b-general", nil)
	perNode := NewSlice(namespace.Name, "milan", "milan-node-1", nil)
	perNode.Spec.Class = authv1beta1.ResourceSliceClassDefault
	perNode.Annotations = map[string]string{"liqo.io/virtual-node-node-name": "node-1", "liqo.io/create-virtual-node": "true"}
	delete(perNode.Labels, "app.kubernetes.io/managed-by")
	c := fake.NewClientBuilder().WithScheme(kinds).WithObjects(namespace, ours, perNode).Build()
	names, err := (&Slices{Client: c, Reader: c, LiqoNamespace: "liqo"}).Names(t.Context(), "milan")
	if err != nil || len(names) != 1 || names[0] != "b-general" {
		t.Errorf("ours are %q, %v", names, err)
	}
}

// What a planner believes of a virtual node to come is what this cluster's Liqo makes.
func TestPoolNodeIsThatOfLiqo(t *testing.T) {
	for version, want := range map[string]string{"": "", "v1.2.0": "", "v1.3.0-rc.1": "virtual-kubelet", "v1.3.2": "virtual-kubelet"} {
		if got := PoolNode(liqo.Installation{Version: version}, "burst", nil).Labels["type"]; got != want {
			t.Errorf("Liqo %s: the label type is %q, want %q", version, got, want)
		}
	}
}
