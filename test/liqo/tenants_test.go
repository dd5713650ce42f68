package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The first tenant at a provider has all its Secrets copied. Neither a later tenant nor a namespace with a
// NamespaceOffloading of its own has any copied by that: none of theirs is at the provider.
func TestTenantsAtOneProvider(t *testing.T) {
	w := start(t)
	for _, o := range []kube.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "legacy", Name: "pay"}},
		&offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "legacy", Name: "offloading"},
			Spec: offv1beta1.NamespaceOffloadingSpec{
				NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType,
				PodOffloadingStrategy:    offv1beta1.LocalAndRemotePodOffloadingStrategyType, ClusterSelector: everyVirtualNode,
			}},
	} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.rome.Objects.Delete(context.Background(), o) })
	}
	a := w.ask(t, w.rome, w.paris, "first", amounts("1", "1Gi"), func(r *api.ResourceRequest) {
		r.Spec.Offload.Reflect, r.Spec.Offload.Others = &api.Reflect{Secrets: api.ReflectAll}, true
	})
	eventually(t, "a request consents for nobody", func(ctx context.Context) error {
		var p api.Peering
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "paris.provider"}, &p)
		if err == nil && !strings.Contains(p.Status.Message, "namespace legacy bourse.dev/offload-to-any=true") {
			err = fmt.Errorf("it says %q", p.Status.Message)
		}
		return err
	})
	stays := func(namespace, secret string) {
		t.Helper()
		var s corev1.Secret
		if err := w.paris.Objects.Get(t.Context(), kube.ObjectKey{Namespace: namespace + "-rome", Name: secret},
			&s); !apierrors.IsNotFound(err) {
			t.Errorf("Secret %s/%s is at paris: %v", namespace, secret, err)
		}
	}
	stays("legacy", "pay")
	if err := w.rome.Objects.Delete(t.Context(), &offv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "legacy", Name: "offloading"}}); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Active)

	late := w.ask(t, w.rome, w.paris, "bank", amounts("1", "1Gi"))
	if err := w.rome.Objects.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "money"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "paris is passed over for bank", func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(late.request), late.request)
		if err == nil && !strings.Contains(late.request.Status.Message, "InUse") {
			err = fmt.Errorf("it is %s: %s", late.request.Status.State, late.request.Status.Message)
		}
		return err
	})
	own := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "first", Name: name}}
	}
	if err := w.rome.Objects.Create(t.Context(), own("goes")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first one's Secret is at paris", func(ctx context.Context) error {
		return w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: "first-rome", Name: "goes"}, own("goes"))
	})
	stays("bank", "money")
	stays("legacy", "pay")
	a.tells(api.ConditionReflected, metav1.ConditionTrue, "paris gets Secrets: All")
	if err := w.rome.Objects.Delete(t.Context(), late.request); err != nil {
		t.Error(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}
