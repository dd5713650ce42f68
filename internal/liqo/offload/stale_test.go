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
