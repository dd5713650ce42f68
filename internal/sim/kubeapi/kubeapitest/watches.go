package kubeapitest

import (
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func (s *suite) watch(o metav1.ListOptions) watch.Interface {
	s.Helper()
	w, err := s.widgets.Watch(s.ctx, o)
	s.ok(err)
	s.Cleanup(w.Stop)
	return w
}

// next is the next event; bookmarks are passed over.
func (s *suite) next(w watch.Interface) watch.Event {
	s.Helper()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				s.Fatal("the watch ended")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-s.ctx.Done():
			s.Fatalf("no event within %v", patience)
		}
	}
}

// sees checks the next events, each written as "ADDED a".
func (s *suite) sees(w watch.Interface, want ...string) {
	s.Helper()
	for _, event := range want {
		e := s.next(w)
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			s.Fatalf("event %s: %v", e.Type, e.Object)
		}
		if got := fmt.Sprint(e.Type, " ", u.GetName()); got != event {
			s.Fatalf("got event %q, want %q", got, event)
		}
	}
}

func (s *suite) revision() string {
	s.Helper()
	list, err := s.widgets.List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	return list.GetResourceVersion()
}

func testWatchOrder(s *suite) {
	w := s.watch(metav1.ListOptions{ResourceVersion: s.revision()})
	const n = 50
	a := s.create(widget("a", object{"i": int64(0)}))
	for i := 1; i < n; i++ {
		a.Object["spec"] = object{"i": int64(i)}
		a = s.update(a)
	}
	s.delete("a")
	last := uint64(0)
	for i := range n + 1 {
		e := s.next(w)
		u := e.Object.(*unstructured.Unstructured)
		revision, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
		s.ok(err)
		if revision <= last {
			s.Fatalf("revision %d after %d", revision, last)
		}
		last = revision
		want, value := watch.Modified, i
		if i == 0 {
			want = watch.Added
		} else if i == n {
			want, value = watch.Deleted, n-1
		}
		s.equal([]any{e.Type, u.Object["spec"]}, []any{want, object{"i": value}}, fmt.Sprint("event ", i))
	}
}

func testWatchResumes(s *suite) {
	start := s.revision()
	a := s.create(widget("a", nil))
	s.create(widget("b", nil))
	s.sees(s.watch(metav1.ListOptions{ResourceVersion: start}), "ADDED a", "ADDED b")
	resumed := s.watch(metav1.ListOptions{ResourceVersion: a.GetResourceVersion()})
	s.sees(resumed, "ADDED b")
	s.delete("a")
	s.sees(resumed, "DELETED a")
	resumed.Stop()
	for e := range resumed.ResultChan() {
		s.equal(e.Type, watch.Error, "type of an event after Stop") // the broken body, if anything
	}
}

func testWatchSelectors(s *suite) {
	start := s.revision()
	labelled := s.watch(metav1.ListOptions{ResourceVersion: start, LabelSelector: "on=yes"})
	named := s.watch(metav1.ListOptions{ResourceVersion: start, FieldSelector: "metadata.name=b"})
	relabel := func(w *unstructured.Unstructured, on string) *unstructured.Unstructured {
		w.SetLabels(map[string]string{"on": on})
		return s.update(w)
	}
	a := s.create(widget("a", nil))
	s.create(widget("b", nil))
	a = relabel(a, "yes")
	a.SetAnnotations(map[string]string{"k": "v"})
	a = s.update(a)
	a = relabel(a, "no")
	relabel(a, "yes")
	s.delete("a")
	s.sees(labelled, "ADDED a", "MODIFIED a")
	gone := s.next(labelled)
	u := gone.Object.(*unstructured.Unstructured)
	s.equal([]any{gone.Type, u.GetLabels(), u.GetResourceVersion()},
		[]any{watch.Deleted, object{"on": "yes"}, a.GetResourceVersion()},
		"event of what stopped to match: as it was, at the revision at which it went")
	s.sees(labelled, "ADDED a", "DELETED a")
	s.sees(named, "ADDED b")
}

// testWatchList is the list in the form of a watch that informers begin with.
func testWatchList(s *suite) {
	s.create(widget("a", nil))
	b := s.create(widget("b", nil))
	yes := true
	w := s.watch(metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	names := map[string]bool{}
	for e := range w.ResultChan() {
		u := e.Object.(*unstructured.Unstructured)
		if e.Type == watch.Bookmark {
			s.equal(u.GetAnnotations(), object{metav1.InitialEventsAnnotationKey: "true"},
				"annotations of the bookmark at the end")
			last, _ := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
			end, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
			s.ok(err)
			if end < last {
				s.Errorf("bookmark at %d, the last object at %d", end, last)
			}
			break
		}
		s.equal(e.Type, watch.Added, "type of an initial event")
		names[u.GetName()] = true
	}
	s.equal(names, object{"a": true, "b": true}, "initial objects")
	s.create(widget("c", nil))
	s.sees(w, "ADDED c")

	_, err := s.widgets.Watch(s.ctx, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true})
	s.refused(err, apierrors.IsInvalid, "sendInitialEvents without resourceVersionMatch")
}

func testWatchFromNow(s *suite) {
	s.create(widget("a", nil))
	w := s.watch(metav1.ListOptions{})
	s.sees(w, "ADDED a")
	s.create(widget("b", nil))
	s.sees(w, "ADDED b")
	no := false
	w = s.watch(metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		ResourceVersion: s.revision()})
	s.create(widget("c", nil))
	s.sees(w, "ADDED c")
}

func testWatchTimeout(s *suite) {
	second := int64(1)
	began := time.Now()
	w := s.watch(metav1.ListOptions{ResourceVersion: s.revision(), TimeoutSeconds: &second})
	for e := range w.ResultChan() {
		s.equal(e.Type, watch.Bookmark, "type of an event on a watch of nothing")
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		s.Errorf("the watch ended after %v", took)
	}
}

func testWatchExpired(s *suite) {
	w := s.watch(metav1.ListOptions{ResourceVersion: "1"})
	e := s.next(w)
	s.equal(e.Type, watch.Error, "type of the event")
	s.refused(apierrors.FromObject(e.Object), apierrors.IsResourceExpired, "watch from before all that is remembered")
	if e, open := <-w.ResultChan(); open {
		s.Errorf("event after the error: %v", e)
	}
}
