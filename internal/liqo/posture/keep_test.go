package posture

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// An agent that finds consumers with peerings and none of them listed says why: the namespace was made again, or the list
// was removed. One that finds them listed says nothing.
func TestWhyTheListWasGone(t *testing.T) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authv1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	peered := time.Now().Add(-time.Hour)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "liqo-tenant-rome", Labels: liqo.Labels("rome"),
		CreationTimestamp: metav1.NewTime(peered)}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: consumers}, Data: map[string]string{"rome": brokered}}
	namespace := func(made time.Time) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bourse", CreationTimestamp: metav1.NewTime(made)}}
	}
	for says, objects := range map[string][]client.Object{
		"namespace bourse was deleted, and made again": {tenant, namespace(peered.Add(time.Minute))},
		"it was removed or emptied while no agent ran": {tenant, namespace(peered.Add(-time.Minute))},
		"": {tenant, namespace(peered), list},
	} {
		c := clientfake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
			WithIndex(&corev1.Namespace{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
		recorder := events.NewFakeRecorder(10)
		l := &ConsumerList{Reader: c, Writer: c, Namespace: "bourse", Events: recorder, Log: slog.New(slog.DiscardHandler),
			Watched: fake.NewClientset().CoreV1().ConfigMaps("bourse")}
		if err := l.Make(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := ""
		select {
		case said = <-recorder.Events:
		default:
		}
		if (said == "") != (says == "") || !strings.Contains(said, says) {
			t.Errorf("it says %q, want %q", said, says)
		}
	}
}
