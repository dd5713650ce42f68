package grant

import (
	"context"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// withClass reads slices as a Liqo after 1.2 stores them: with the class that the provider decided in the status.
type withClass struct {
	client.Reader
	class string
}

func (r withClass) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if u, is := o.(*unstructured.Unstructured); is {
		return unstructured.SetNestedField(u.Object, r.class, "status", "class")
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

// A slice whose consumer names no class is granted if the provider's Liqo decided for class bourse. What a consumer names
// counts, whatever the status has.
func TestTheClassInForce(t *testing.T) {
	for name, c := range map[string]struct {
		spec    authv1beta1.ResourceSliceClass
		status  string
		granted bool
	}{
		"it is named":                      {liqo.Class, "", true},
		"it is named, and decided":         {liqo.Class, "bourse", true},
		"none is named, and none decided":  {"", "", false},
		"the provider decided for ours":    {"", "bourse", true},
		"the provider decided for another": {"", "default", false},
		"another is named":                 {"default", "bourse", false},
	} {
		namespace, slice, tenant := lyonAsks("general", "1")
		slice.Spec.Class = c.spec
		k := fake.NewClientBuilder().WithScheme(schemes()).WithObjects(namespace, slice, tenant).WithStatusSubresource(slice).Build()
		g := &Granter{Client: k, Reader: withClass{k, c.status}, Cluster: "milan",
			Properties: func() api.Properties { return api.Properties{} },
			Pool:       func(string) *api.PoolPolicy { return nil },
			Owed: func(context.Context, string, string) (Owed, bool, error) {
				return Owed{Pool: api.GeneralPool, Resources: quantities("cpu", "1"), Reservations: []string{"r-1"}}, true, nil
			},
			Suspended: func(context.Context, string) (string, error) { return "", nil }}
		if _, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(slice)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var now authv1beta1.ResourceSlice
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(slice), &now); err != nil {
			t.Fatal(err)
		}
		if granted := len(now.Status.Resources) > 0; granted != c.granted {
			t.Errorf("%s: granted %v, want %v", name, granted, c.granted)
		}
	}
}
