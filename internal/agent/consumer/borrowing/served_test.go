package borrowing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// relay notes which reservations are reported as Active.
type relay struct{ active []string }

func (r *relay) Progress(_ context.Context, id string, state api.State) (transport.Reservation, error) {
	if state == api.Active {
		r.active = append(r.active, id)
	}
	return transport.Reservation{}, nil
}

// An account grows all the time: one namespace has ever more reservations, and the provider is always behind with its
// grant. The reservation of another namespace is Active as soon as the grant has room for one of each.
func TestAnAccountThatGrowsKeepsNobodyWaiting(t *testing.T) {
	w, reports := newTenants(t), &relay{}
	w.options.Relay = reports
	granted, many := 1, 0
	w.grants = func(s *authv1beta1.ResourceSliceStatus) {
		s.Resources = corev1.ResourceList{"cpu": *resource.NewQuantity(int64(granted), resource.DecimalSI)}
	}
	more := func(n int) {
		for range n {
			request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "noisy", GenerateName: "r-"}}
			many++
			w.reserve(request, fmt.Sprintf("a-noisy-%03d", many), "1")
		}
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "noisy"}})
	more(1)
	w.serve()
	if len(reports.active) == 0 {
		t.Fatal("the first reservation is not Active")
	}
	more(20)
	w.borrows("quiet", nil)
	for ; granted < 3; granted++ {
		more(5)
		w.serve()
	}
	if !slices.Contains(reports.active, "of-quiet") {
		t.Errorf("Active are %q", slices.Compact(reports.active))
	}
	var i api.ReservationInstruction
	w.get("quiet", "of-quiet", &i)
	if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionNodeReady) {
		t.Errorf("its conditions are %+v", i.Status.Conditions)
	}
	if all := slices.Compact(slices.Sorted(slices.Values(reports.active))); len(all) > granted {
		t.Errorf("Active are %q, and the provider grants %d", all, granted)
	}
}

// One namespace has ever more small reservations, and the provider's grant is always a little behind. The large
// reservation of another namespace keeps what it waits for: the small ones that come later wait behind it.
func TestSmallReservationsKeepNoLargeOneWaiting(t *testing.T) {
	const large = 5
	w, reports := newTenants(t), &relay{}
	w.options.Relay = reports
	granted, many := 3, 0
	w.grants = func(s *authv1beta1.ResourceSliceStatus) {
		s.Resources = corev1.ResourceList{"cpu": *resource.NewQuantity(int64(granted), resource.DecimalSI)}
	}
	small := func() {
		request := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "noisy", GenerateName: "r-"}}
		many++
		w.reserve(request, fmt.Sprintf("small-%03d", many), "1")
	}
	active := func() []string { return slices.Compact(slices.Sorted(slices.Values(reports.active))) }
	for _, name := range []string{"noisy", "quiet"} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for range granted {
		small()
	}
	w.serve()
	if len(active()) != granted {
		t.Fatalf("Active are %q, want %d", active(), granted)
	}
	for _, id := range active() {
		w.becomesActive(id)
	}
	w.binds("quiet", nil, fmt.Sprint(large))
	granted += large - 1 // it grew by the large one, and one of the small ones had ended
	for range 4 {
		small()
		w.serve()
		for _, id := range active() {
			w.becomesActive(id)
		}
		granted++
	}
	if !slices.Contains(active(), "of-quiet") {
		t.Errorf("%d small ones came, and Active are %q", many, active())
	}
	if sum, had := len(active())-1+large, granted-1; sum != had {
		t.Errorf("%d are Active, and the provider grants %d: %q", sum, had, active())
	}
}

// While the provider holds its grant back, nothing more comes for a loan that waits: the others take what there is.
func TestWhoKeepsRoom(t *testing.T) {
	loan := func(id string, state api.State, cpu int64) bound {
		return bound{Reservation: &market.Reservation{ID: id, State: state, Size: amounts.List{{Resource: "cpu", Value: cpu}}}}
	}
	loans := []bound{loan("large", api.Reserved, 5), loan("small", api.Reserved, 1), loan("active", api.Active, 3),
		loan("shrunk", api.Active, 9)}
	serves := amounts.List{{Resource: "cpu", Value: 7}}.Resources()
	for _, c := range []struct {
		granted offload.SliceState
		want    string
	}{
		{offload.SliceState{Serves: serves}, "active"},
		{offload.SliceState{Serves: serves, Held: grant.ReasonUnguarded}, "active small"},
		{offload.SliceState{Serves: serves, Ready: true}, "active large shrunk small"},
		{offload.SliceState{}, ""},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(served(loans, c.granted))), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.granted, got, c.want)
		}
	}
}

// A virtual node has room for hundreds of reservations at once. Each look reports some of them, so that the next one
// sees that another namespace has one, and reports it with the first.
func TestALookReportsSomeReservations(t *testing.T) {
	w, reports := newTenants(t), &relay{}
	w.options.Relay = reports
	w.grants = func(s *authv1beta1.ResourceSliceStatus) {
		s.Resources = corev1.ResourceList{"cpu": resource.MustParse("1k")}
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "noisy"}})
	const many = 3*atOnce + 1
	for n := range many {
		w.reserve(&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "noisy", Name: fmt.Sprint("r-", n)}},
			fmt.Sprintf("a-noisy-%03d", n), "10m")
	}
	for len(reports.active) == 0 {
		if _, err := w.Serve(t.Context(), "milan"); err != nil {
			t.Fatal(err)
		}
		w.grantAll()
	}
	if len(reports.active) > atOnce {
		t.Errorf("one look reports %d", len(reports.active))
	}
	w.borrows("quiet", nil)
	reports.active = nil
	w.serve()
	if at := slices.Index(reports.active, "of-quiet"); at < 0 || at > 1 {
		t.Errorf("it is reported as %d of %q", at, reports.active)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(reports.active)))); n != many+1-atOnce {
		t.Errorf("then %d more are reported, want each of the %d others once", n, many+1-atOnce)
	}
	w.serve()
	var all api.ReservationInstructionList
	if err := w.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, i := range all.Items {
		if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionNodeReady) || i.Status.SharedBy != many+1 {
			t.Fatalf("%s: shared by %d, %+v", i.Name, i.Status.SharedBy, i.Status.Conditions)
		}
	}
}
