package liqo

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// A consumer cannot make the provider's Liqo act on a Secret of its own: neither by a Secret that
// it creates, nor by a change of one that it may have. Each attempt is the consumer's own virtual
// kubelet's identity; a server that plays the consumer's cluster sees whether Liqo acts.
func TestASecretIsNoIdentity(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "secrets", amounts("1", "1Gi"))
	a.becomes(api.Active)
	kubelet := w.as(t, w.rome, w.milan, "kubeconfig-resourceslice-"+market.SliceName("rome", "milan", api.GeneralPool))
	eventually(t, "the namespace is there", func(ctx context.Context) error {
		return kubelet.List(ctx, &corev1.SecretList{}, kube.InNamespace("secrets-rome"))
	})

	reached := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case reached <- r.Method + " " + r.URL.Path:
		default:
		}
		http.Error(rw, "no", http.StatusForbidden)
	}))
	defer server.Close()
	kubeconfig := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],"users":[{"name":"c","user":{"token":"t"}}]}`, server.URL)
	identity := func(name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "secrets-rome", Name: name,
				Labels:      map[string]string{"liqo.io/remote-cluster-id": "oslo", "liqo.io/identity-type": "ControlPlane"},
				Annotations: map[string]string{"liqo.io/remote-tenant-namespace": "x"},
			},
			Data: map[string][]byte{"kubeconfig": kubeconfig},
		}
	}
	harmless := func(name string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "secrets-rome", Name: name},
			Data: map[string][]byte{"kubeconfig": kubeconfig}}
		if err := kubelet.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	letIn := false
	for what, attempt := range map[string]func(*testing.T) error{
		"creates it": func(t *testing.T) error { return kubelet.Create(t.Context(), identity("created")) },
		"changes one": func(t *testing.T) error {
			s := harmless("changed")
			s.Labels, s.Annotations = identity("").Labels, identity("").Annotations
			return kubelet.Update(t.Context(), s)
		},
		"patches one": func(t *testing.T) error {
			s := harmless("patched")
			before := s.DeepCopy()
			s.Labels, s.Annotations = identity("").Labels, identity("").Annotations
			return kubelet.Patch(t.Context(), s, kube.MergeFrom(before))
		},
		"applies one": func(t *testing.T) error {
			s := identity("applied")
			s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
			//lint:ignore SA1019 the raw patch
			return kubelet.Patch(t.Context(), s, kube.Apply, kube.FieldOwner("reflection.liqo.io"), kube.ForceOwnership)
		},
		"asks for a token of a ServiceAccount": func(t *testing.T) error {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "secrets-rome", Name: "token"},
				Type: corev1.SecretTypeServiceAccountToken}
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			return kubelet.Create(t.Context(), s)
		},
		"keeps the namespace from going": func(t *testing.T) error {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "secrets-rome",
				Name: "stays", Finalizers: []string{"rome.example/never"}}}
			return kubelet.Create(t.Context(), s)
		},
	} {
		t.Run("a consumer that "+what, func(t *testing.T) {
			err := attempt(t)
			if err == nil {
				letIn = true
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "brokered") {
				t.Errorf("%v, want it to be refused", err)
			}
		})
	}
	patience := time.Duration(0) // what is refused reaches nobody: what is let in tells how far it gets
	if letIn {
		patience = 10 * time.Second
	}
	select {
	case request := <-reached:
		t.Errorf("milan's Liqo told the consumer's server: %s", request)
	case <-time.After(patience):
	}
	if t.Failed() { // what was let in would keep the namespace
		var all corev1.SecretList
		if err := w.milan.Objects.List(t.Context(), &all, kube.InNamespace("secrets-rome")); err != nil {
			t.Fatal(err)
		}
		for i := range all.Items {
			all.Items[i].Finalizers = nil
			_ = w.milan.Objects.Update(t.Context(), &all.Items[i])
			_ = w.milan.Objects.Delete(t.Context(), &all.Items[i])
		}
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}
