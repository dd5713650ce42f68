package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// A consumer runs more than it has reserved: its pod in one namespace ignores SIGTERM once it is
// deleted, which Liqo counts no more, and the quota of another namespace does not know of it. The
// provider kills what runs on, tells its admin, and leaves the other pod alone.
func TestMoreThanIsReservedIsTakenBack(t *testing.T) {
	w := start(t)
	second := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "and-over",
		Labels: map[string]string{api.RequestsFromLabel: "over"}}}
	if err := w.rome.Objects.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	a := w.ask(t, w.rome, w.paris, "over", amounts("1", "1Gi"), func(r *api.ResourceRequest) {
		r.Spec.Offload.Namespaces = append(r.Spec.Offload.Namespaces, second.Name)
	})
	a.becomes(api.Active)
	pod := func(namespace, name string) *corev1.Pod {
		grace := int64(3600)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				Annotations: map[string]string{"lab.bourse.dev/ignores": "SIGTERM"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"liqo.io/type": "virtual-node"}, TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{
					Name: "c", Image: "localhost/c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("700m", "64Mi"))},
				}},
			},
		}
		if err := w.rome.Objects.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.runs(t, w.paris, namespace+"-rome", name)
		return p
	}
	first := pod("over", "first")
	if err := w.rome.Objects.Delete(t.Context(), first, kube.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	w.ends(t, w.paris, "over-rome", "first")
	more := pod("and-over", "more")
	var before, after corev1.Pod
	at := kube.ObjectKey{Namespace: "and-over-rome", Name: "more"}
	if err := w.paris.Objects.Get(t.Context(), at, &before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what runs on is killed, and paris tells it", func(ctx context.Context) error {
		has, err := w.takes(ctx, w.paris, "over-rome")
		if err == nil && !has.IsZero() {
			err = fmt.Errorf("it takes %s", has.String())
		}
		if err != nil {
			return err
		}
		var events eventsv1.EventList
		if err := w.paris.Objects.List(ctx, &events, kube.InNamespace(api.Namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "PodsTakenBack" && e.Regarding.Name == "rome.consumer" {
				return nil
			}
		}
		return fmt.Errorf("of %d events none tells it", len(events.Items))
	})
	counted := func(line string) bool {
		n, found := strings.CutPrefix(line, `bourse_agent_pods_taken_back_total{cause="overuse"} `)
		return found && n != "0"
	}
	if !slices.ContainsFunc(w.metricsOfParis(t), counted) {
		t.Error("the metric counts nothing")
	}
	if err := w.paris.Objects.Get(t.Context(), at, &after); err != nil ||
		after.UID != before.UID || after.DeletionTimestamp != nil {
		t.Errorf("the other pod is %s, was %s, deleted at %v, %v", after.UID, before.UID, after.DeletionTimestamp, err)
	}
	if err := w.rome.Objects.Delete(t.Context(), more, kube.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}
