package kubeapitest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// testEvents writes an Event by events.k8s.io, as programs do, and reads it in the core, as kubectl does.
func testEvents(s *suite) {
	w := s.create(widget("a", nil))
	core, events := s.kube.CoreV1().Events(s.ns), s.kube.EventsV1().Events(s.ns)
	watch, err := core.Watch(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a," +
		"involvedObject.apiVersion=" + w.GetAPIVersion() + ",involvedObject.uid=" + string(w.GetUID())})
	s.ok(err)
	defer watch.Stop()
	made, err := events.Create(s.ctx, &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a.1"},
		EventTime: metav1.NewMicroTime(time.Now()), ReportingController: "bourse.dev/test", ReportingInstance: "one",
		Action: "Test", Reason: "Tested", Type: corev1.EventTypeNormal, Note: "size is 1",
		Regarding: corev1.ObjectReference{APIVersion: w.GetAPIVersion(), Kind: w.GetKind(), Namespace: s.ns, Name: "a",
			UID: w.GetUID()},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.equal([]string{made.Note, made.Regarding.Name}, []string{"size is 1", "a"}, "as it was made")
	first := (<-watch.ResultChan()).Object.(*corev1.Event)
	s.equal([]string{first.Message, first.InvolvedObject.Name, first.ReportingController, string(first.UID)},
		[]string{"size is 1", "a", "bourse.dev/test", string(made.UID)}, "the core's watch")
	_, err = events.Patch(s.ctx, "a.1", types.StrategicMergePatchType,
		[]byte(`{"series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.000000Z"}}`), metav1.PatchOptions{})
	s.ok(err)
	read, err := core.Get(s.ctx, "a.1", metav1.GetOptions{})
	s.ok(err)
	s.equal(read.Series.Count, 2, "how often it happened")
	read.Message = "size is 2"
	_, err = core.Update(s.ctx, read, metav1.UpdateOptions{})
	s.ok(err)
	all, err := events.List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	s.equal([]any{len(all.Items), all.Items[0].Note}, []any{1, "size is 2"}, "all")
	s.ok(events.Delete(s.ctx, "a.1", metav1.DeleteOptions{}))
	_, err = core.Get(s.ctx, "a.1", metav1.GetOptions{})
	s.refused(err, apierrors.IsNotFound, "what was deleted by the other API")
}
