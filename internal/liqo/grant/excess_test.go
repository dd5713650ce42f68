package grant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
)

// What is too much goes in order: pods that are deleted already, or whose ShadowPod is gone, and then others.
func TestTakeBack(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	scheme := runtime.NewScheme()
	_, _ = corev1.AddToScheme(scheme), offv1beta1.AddToScheme(scheme)
	labels := map[string]string{"liqo.io/creator-user": "u", "liqo.io/managed-by": "shadowpod"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}
	shadow := func(name string) client.Object {
		return &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: labels},
			Spec: offv1beta1.ShadowPodSpec{Pod: spec}}
	}
	pod := func(name string, deleted time.Duration) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: labels}, Spec: spec}
		if deleted != 0 {
			hour := int64(3600)
			at := metav1.NewTime(now.Add(time.Hour - deleted))
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &at, &hour, []string{"a/b"}
		}
		return p
	}
	all := []client.Object{
		shadow("stays"), pod("stays", 0), shadow("waits"), // its pod is still to come
		pod("long-deleted", time.Minute), pod("deleted", time.Second), pod("orphan", 0),
	}
	for name, c := range map[string]struct {
		keep     string
		patience time.Duration
		want     string
	}{
		"all of it fits":           {"5", 0, ""},
		"what is deleted, at once": {"2", 0, "Pod deleted 1, Pod long-deleted 1, Pod orphan 1"},
		"what has had its time":    {"2", 30 * time.Second, "Pod long-deleted 1, Pod orphan"},
		"nothing is left": {"0", 30 * time.Second,
			"Pod long-deleted 1, Pod orphan, ShadowPod stays, ShadowPod waits"},
	} {
		t.Run(name, func(t *testing.T) {
			var did []string
			w := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, o client.Object, how ...client.DeleteOption) error {
					var options client.DeleteOptions
					options.ApplyOptions(how)
					said := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1."), "*v1beta1.") + " " + o.GetName()
					if g := options.GracePeriodSeconds; g != nil {
						said += fmt.Sprint(" ", *g)
					}
					did = append(did, said)
					return nil
				},
			}).Build()
			e := Excess{User: "u", Keep: api.Resources{"cpu": resource.MustParse(c.keep)}, Patience: c.patience}
			n, err := e.TakeBack(t.Context(), w, w, now)
			slices.Sort(did)
			if got := strings.Join(did, ", "); err != nil || got != c.want || n != len(did) {
				t.Errorf("%d, %v: %q, want %q", n, err, got, c.want)
			}
		})
	}
}
