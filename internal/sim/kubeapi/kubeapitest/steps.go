package kubeapitest

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The steps that tests are written in: each fails the test if it fails.

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// refused checks that an error is of the kind that a function of apierrors names.
func (s *suite) refused(err error, kind func(error) bool, what string) {
	s.Helper()
	if !kind(err) {
		s.Errorf("%s: wrong answer %v (%T)", what, err, err)
	}
}

func (s *suite) equal(got, want any, what string) {
	s.Helper()
	g, err := json.Marshal(got)
	s.ok(err)
	w, err := json.Marshal(want)
	s.ok(err)
	if string(g) != string(w) {
		s.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// eventually waits for what the server or a client does by itself.
func (s *suite) eventually(what string, done func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

type object = map[string]any

func widget(name string, spec object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object{}}
	u.SetGroupVersionKind(version.WithKind("Widget"))
	u.SetName(name)
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

func (s *suite) create(w *unstructured.Unstructured) *unstructured.Unstructured {
	s.Helper()
	made, err := s.widgets.Create(s.ctx, w, metav1.CreateOptions{})
	s.ok(err)
	return made
}

func (s *suite) get(name string) *unstructured.Unstructured {
	s.Helper()
	got, err := s.widgets.Get(s.ctx, name, metav1.GetOptions{})
	s.ok(err)
	return got
}

func (s *suite) update(w *unstructured.Unstructured, subresources ...string) *unstructured.Unstructured {
	s.Helper()
	got, err := s.widgets.Update(s.ctx, w, metav1.UpdateOptions{}, subresources...)
	s.ok(err)
	return got
}

func (s *suite) patch(name string, kind types.PatchType, patch any,
	subresources ...string) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(patch)
	s.ok(err)
	return s.widgets.Patch(s.ctx, name, kind, raw, metav1.PatchOptions{}, subresources...)
}

func (s *suite) apply(manager string, w *unstructured.Unstructured, subresources ...string) *unstructured.Unstructured {
	s.Helper()
	got, err := s.widgets.Apply(s.ctx, w.GetName(), w, metav1.ApplyOptions{FieldManager: manager, Force: true},
		subresources...)
	s.ok(err)
	return got
}

func (s *suite) delete(name string) {
	s.Helper()
	s.ok(s.widgets.Delete(s.ctx, name, metav1.DeleteOptions{}))
}

// pod makes one that no scheduler takes: it names its scheduler.
func (s *suite) pod(name, node string) *corev1.Pod {
	s.Helper()
	made, err := s.kube.CoreV1().Pods(s.ns).Create(s.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: "nobody", TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	return made
}
