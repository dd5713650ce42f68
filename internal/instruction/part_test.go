package instruction_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Several writers write a status, each from an old copy. None undoes what another one wrote, a condition that
// its writer no longer says goes away, and what has not changed is not written.
func TestParts(t *testing.T) {
	kinds := runtime.NewScheme()
	if err := api.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "ProviderInstruction",
			Resource: "providerinstructions", Namespaced: true, Status: true},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	object := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r-1"}}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	used := instruction.Part{Manager: "use", Conditions: []string{api.ConditionSuspended}, Use: true}
	one := api.Resources{"cpu": resource.MustParse("1")}
	suspended := metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionTrue, Reason: "Suspended"}
	write := func(next api.InstructionStatus) {
		t.Helper()
		old := object.DeepCopy()
		if err := used.Write(t.Context(), c, old, &old.Status, next); err != nil {
			t.Fatal(err)
		}
	}
	show := func(state api.State) {
		t.Helper()
		old := object.DeepCopy()
		if err := instruction.Show(t.Context(), c, old, &old.Status,
			&market.Reservation{ID: "r-1", State: state}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() api.InstructionStatus {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		return object.Status
	}
	write(api.InstructionStatus{Granted: one, Used: one, SharedBy: 1, Conditions: []metav1.Condition{suspended}})
	show(api.Reserved) // from a copy that lacks the amounts
	if s := read(); s.State != api.Reserved || s.SharedBy != 1 || !meta.IsStatusConditionTrue(s.Conditions,
		api.ConditionReady) || !meta.IsStatusConditionTrue(s.Conditions, api.ConditionSuspended) {
		t.Errorf("after both it is %+v", s)
	}
	version := object.ResourceVersion
	write(api.InstructionStatus{Granted: one, Used: one, SharedBy: 1, Conditions: []metav1.Condition{suspended}})
	if show(api.Reserved); read().State != api.Reserved || object.ResourceVersion != version {
		t.Error("it is written again")
	}
	write(api.InstructionStatus{Granted: one, Used: one, SharedBy: 2})
	if s := read(); s.SharedBy != 2 || len(s.Conditions) != 1 ||
		!meta.IsStatusConditionTrue(s.Conditions, api.ConditionReady) {
		t.Errorf("without the suspension it is %+v", s)
	}
	write(api.InstructionStatus{})
	read()
	used = instruction.SlicePart
	write(api.InstructionStatus{Granted: one, Used: one, SharedBy: 1, Conditions: []metav1.Condition{suspended}})
	read()
	show(api.Released)
	if s := read(); s.State != api.Released || s.Granted != nil || s.Used != nil || s.SharedBy != 0 ||
		len(s.Conditions) != 1 || s.Conditions[0].Type != api.ConditionReady || s.Conditions[0].Message == "" {
		t.Errorf("what is over still says how it is carried out: %+v", s)
	}
	if err := c.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	write(api.InstructionStatus{SharedBy: 3})
}

// A ReservationInstruction names no reservation but its own: the virtual node of its provider serves those of other
// namespaces, too. Admins read in a ProviderInstruction what the text says.
func TestOtherReservationsAreLeftOut(t *testing.T) {
	kinds := runtime.NewScheme()
	if err := api.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	var types []kubeapi.Type
	for kind, resource := range map[string]string{"ProviderInstruction": "providerinstructions",
		"ReservationInstruction": "reservationinstructions"} {
		types = append(types, kubeapi.Type{GroupVersion: api.GroupVersion, Kind: kind, Resource: resource, Namespaced: true,
			Status: true})
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: types}).Config(), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	const own, other = "r-kpg6ewsze7djkr54", "r-hurcyegqyi6hbsgh"
	text := "granted for " + other + ", " + own
	next := api.InstructionStatus{Conditions: []metav1.Condition{
		{Type: api.ConditionGranted, Status: "True", Reason: "Granted", Message: text}}}
	named := metav1.ObjectMeta{Namespace: "team", Name: own}
	borrowed, lent := &api.ReservationInstruction{ObjectMeta: named}, &api.ProviderInstruction{ObjectMeta: named}
	for object, status := range map[client.Object]*api.InstructionStatus{
		borrowed: &borrowed.Status, lent: &lent.Status} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if err := instruction.SlicePart.Write(t.Context(), c, object, status, next); err != nil {
			t.Fatal(err)
		}
	}
	if got := borrowed.Status.Conditions[0].Message; got != "granted for "+own+", and for others beside it" {
		t.Errorf("a ReservationInstruction says %q", got)
	}
	if got := lent.Status.Conditions[0].Message; got != text {
		t.Errorf("a ProviderInstruction says %q", got)
	}
}
