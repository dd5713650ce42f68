package liqo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// What of a namespace goes to the provider is what the request says, and the way to the consumer's
// API server never does. What the provider refuses an Event names, with the words of its policy.
func TestWhatIsReflected(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.paris, "reflected", amounts("1", "1Gi"), func(r *api.ResourceRequest) {
		r.Spec.Offload.Reflect = &api.Reflect{Secrets: api.ReflectAll,
			ConfigMaps: api.ReflectNone, Services: api.ReflectAllowList}
	})
	a.becomes(api.Active)
	a.run(1, "100m", "64Mi")
	a.running(w.paris, 1)

	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "reflected", Name: name} }
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	listed := service("listed")
	listed.Annotations = map[string]string{"liqo.io/allow-reflection": "true"}
	stays := []kube.Object{&corev1.ConfigMap{ObjectMeta: named("stays")}, service("stays")}
	goes := []kube.Object{&corev1.Secret{ObjectMeta: named("goes")}, listed}
	for _, o := range append(stays, goes...) { // what goes last
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	there := func(ctx context.Context, o kube.Object) error {
		return w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: "reflected-rome", Name: o.GetName()},
			o.DeepCopyObject().(kube.Object))
	}
	eventually(t, "Secret and Service are at paris", func(ctx context.Context) error {
		return errors.Join(there(ctx, goes[0]), there(ctx, goes[1]))
	})
	for _, o := range stays {
		if err := there(t.Context(), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s is at paris: %v", o, o.GetName(), err)
		}
	}
	acts := service("acts")
	acts.Annotations = map[string]string{"liqo.io/allow-reflection": "true",
		"external-dns.alpha.kubernetes.io/hostname": "www.paris.example"}
	w.isRefused(t, a, acts, "on which a controller could act")
	w.isRefused(t, a, &corev1.Secret{ObjectMeta: named("large"),
		Data: map[string][]byte{"large": make([]byte, 600<<10)}}, "512 KiB")
	a.tells(api.ConditionReflected, metav1.ConditionFalse, "Secret reflected/large: ",
		"Service reflected/acts: ", "512 KiB", "so these stay: ",
		"Service reflected/stays", "ConfigMaps: None")
	w.diagnoses(t, "NotReflected", "reservation "+a.request.Status.Reservation)
	before := acts.DeepCopy()
	delete(acts.Annotations, "external-dns.alpha.kubernetes.io/hostname")
	if err := w.rome.Objects.Patch(t.Context(), acts, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "once it is changed it is at paris", func(ctx context.Context) error { return there(ctx, acts) })
	var pods corev1.PodList
	if err := w.paris.Objects.List(t.Context(), &pods, kube.InNamespace("reflected-rome")); err != nil ||
		len(pods.Items) != 1 {
		t.Fatalf("%d pods are at paris: %v", len(pods.Items), err)
	}
	for _, env := range pods.Items[0].Spec.Containers[0].Env {
		if strings.HasPrefix(env.Name, "KUBERNETES_") {
			t.Errorf("the pod is told %s=%s", env.Name, env.Value)
		}
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// isRefused demands that Liqo says in an Event on an object why the provider refuses it.
func (w *world) isRefused(t *testing.T, a *asked, o kube.Object, why string) {
	t.Helper()
	if err := a.from.Objects.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	eventually(t, o.GetName()+" is refused, and an Event says so", func(ctx context.Context) error {
		var events corev1.EventList
		if err := a.from.Objects.List(ctx, &events, kube.InNamespace(o.GetNamespace()),
			kube.MatchingFields{"reason": "FailedReflection"}); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == o.GetName() && strings.Contains(e.Message, why) {
				return nil
			}
		}
		return fmt.Errorf("%d Events", len(events.Items))
	})
}
