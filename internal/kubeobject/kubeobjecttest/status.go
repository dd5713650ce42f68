// Package kubeobjecttest checks that internal/kubeobject does the same at a real API server and at the
// simulated one.
package kubeobjecttest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Run checks it by a client whose scheme has Bourse's kinds. It makes objects in namespace.
func Run(t *testing.T, c client.Client, namespace string) {
	t.Run("one writer", func(t *testing.T) { testOneWriter(t, c, namespace) })
	t.Run("two writers", func(t *testing.T) { testTwoWriters(t, c, namespace) })
	t.Run("an earlier version", func(t *testing.T) { testEarlierVersion(t, c, namespace) })
	t.Run("gone", func(t *testing.T) { testGone(t, c, namespace) })
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: metav1.Now().Rfc3339Copy()}
}

type suite struct {
	*testing.T
	client.Client
	key client.ObjectKey
}

// create makes an instruction that nothing but the test writes.
func create(t *testing.T, c client.Client, namespace, name string) *suite {
	t.Helper()
	o := &api.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	o.Spec.Resources, o.Spec.Until = api.Resources{"cpu": resource.MustParse("1")}, metav1.Now().Rfc3339Copy()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(t.Context(), o) })
	return &suite{t, c, client.ObjectKeyFromObject(o)}
}

func (s *suite) get() *api.ReservationInstruction {
	s.Helper()
	o := &api.ReservationInstruction{}
	if err := s.Get(s.Context(), s.key, o); err != nil {
		s.Fatal(err)
	}
	return o
}

// apply applies a status as a writer.
func (s *suite) apply(manager string, status api.InstructionStatus) *api.ReservationInstruction {
	s.Helper()
	return s.applyAs(kubeobject.Status{Client: s.Client, Manager: manager}, status)
}

func (s *suite) applyAs(writer kubeobject.Status, status api.InstructionStatus) *api.ReservationInstruction {
	s.Helper()
	o := s.get()
	o.Status = status
	if err := writer.Apply(s.Context(), o); err != nil {
		s.Fatalf("%s: %v", writer.Manager, err)
	}
	return s.get()
}

// expect checks which conditions there are.
func (s *suite) expect(what string, o *api.ReservationInstruction, want ...string) {
	s.Helper()
	var got []string
	for _, c := range o.Status.Conditions {
		got = append(got, c.Type+"="+string(c.Status))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.Errorf("%s: conditions %v, want %v", what, got, want)
	}
}

func testOneWriter(t *testing.T, c client.Client, namespace string) {
	s := create(t, c, namespace, "one-writer")
	status := api.InstructionStatus{
		Conditions: []metav1.Condition{condition("A", "True"), condition("B", "False")}, SharedBy: 2,
		Used: api.Resources{"cpu": resource.MustParse("2"), "memory": resource.Quantity{}},
	}
	first := s.apply("one", status)
	s.expect("written", first, "A=True", "B=False")
	if used, has := first.Status.Used["memory"]; !has || !used.IsZero() ||
		first.Status.SharedBy != 2 || len(first.Status.Used) != 2 {
		t.Errorf("written: %+v", first.Status)
	}
	if again := s.apply("one", status); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same status makes another version of the object")
	}
	status.Conditions, status.SharedBy = status.Conditions[1:], 0
	status.Used = api.Resources{"cpu": resource.MustParse("0")}
	next := s.apply("one", status)
	s.expect("less", next, "B=False")
	if next.Status.SharedBy != 0 || len(next.Status.Used) != 1 || !next.Status.Used.Cpu().IsZero() {
		t.Errorf("less: %+v", next.Status)
	}
	if last := s.apply("one", api.InstructionStatus{}); len(last.Status.Conditions) > 0 || last.Status.Used != nil {
		t.Errorf("nothing: %+v", last.Status)
	}
}

func testTwoWriters(t *testing.T, c client.Client, namespace string) {
	s := create(t, c, namespace, "two-writers")
	s.apply("one", api.InstructionStatus{Conditions: []metav1.Condition{condition("A", "True"), condition("B", "True")}})
	o := s.apply("two", api.InstructionStatus{Conditions: []metav1.Condition{condition("C", "True")}, SharedBy: 1})
	s.expect("both", o, "A=True", "B=True", "C=True")
	o = s.apply("one", api.InstructionStatus{Conditions: []metav1.Condition{condition("A", "False")}})
	s.expect("one has less", o, "A=False", "C=True")
	if o.Status.SharedBy != 1 {
		t.Error("one writer removes a field of the other")
	}
	s.expect("two has nothing", s.apply("two", api.InstructionStatus{}), "A=False")
}

// A sole writer removes what a version without server-side apply wrote.
func testEarlierVersion(t *testing.T, c client.Client, namespace string) {
	sole := kubeobject.Status{Client: c, Manager: "one", Sole: true}
	for name, write := range map[string]func(s *suite, o *api.ReservationInstruction) error{
		"update": func(s *suite, o *api.ReservationInstruction) error {
			meta.SetStatusCondition(&o.Status.Conditions, condition("Old", "True"))
			return c.Status().Update(s.Context(), o)
		},
		"patch": func(s *suite, o *api.ReservationInstruction) error {
			before := o.DeepCopy()
			meta.SetStatusCondition(&o.Status.Conditions, condition("Old", "True"))
			return c.Status().Patch(s.Context(), o, client.MergeFrom(before))
		},
	} {
		s := create(t, c, namespace, "earlier-"+name)
		if err := write(s, s.get()); err != nil {
			t.Fatal(err)
		}
		o := s.applyAs(sole, api.InstructionStatus{Conditions: []metav1.Condition{condition("A", "True")}})
		s.expect(name+", before the first apply", o, "A=True")
		if err := write(s, s.get()); err != nil {
			t.Fatal(err)
		}
		s.expect(name, s.get(), "A=True", "Old=True")
		o = s.applyAs(sole, api.InstructionStatus{Conditions: []metav1.Condition{condition("A", "True")}})
		s.expect(name+", after an apply", o, "A=True")
		version := o.ResourceVersion
		if o = s.applyAs(sole, o.Status); o.ResourceVersion != version {
			t.Errorf("%s: the same status makes another version", name)
		}
	}
}

func testGone(t *testing.T, c client.Client, namespace string) {
	s := create(t, c, namespace, "gone")
	o := s.get()
	if err := c.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	status := kubeobject.Status{Client: c, Manager: "one"}
	o.Status.SharedBy = 3
	if err := status.Apply(t.Context(), o); err != nil {
		t.Errorf("of an object that is gone: %v", err)
	}
}
