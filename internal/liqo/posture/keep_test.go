package posture

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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

// removing has the list removed just before a watch of it begins.
type removing struct {
	typedcorev1.ConfigMapInterface
	remove func()
}

func (r removing) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r.remove()
	return r.ConfigMapInterface.Watch(ctx, o)
}

// A list that is removed before the agent watches it is made again: there is no event of that.
func TestAListThatIsRemovedBeforeTheWatch(t *testing.T) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authv1beta1.AddToScheme, corev1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	list := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: consumers}}
	removed := make(chan error, 1)
	c := clientfake.NewClientBuilder().WithScheme(known).Build()
	ctx, stop := context.WithCancel(t.Context())
	l := &ConsumerList{Reader: c, Writer: c, Namespace: "bourse", Log: slog.New(slog.DiscardHandler),
		Watched: removing{fake.NewClientset().CoreV1().ConfigMaps("bourse"), func() { removed <- c.Delete(ctx, list.DeepCopy()) }}}
	if err := l.Make(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	var again corev1.ConfigMap
	for end := time.Now().Add(5 * time.Second); c.Get(ctx, client.ObjectKeyFromObject(&list), &again) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not made again")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
