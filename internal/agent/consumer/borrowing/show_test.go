package borrowing

import (
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Two requests share a virtual node: one reserves 4 CPU for the namespace a, the other 2 CPU for b. Each is shown what
// it has of the grant, and what its own pods use of that.
func TestEachReservationHasItsOwnUse(t *testing.T) {
	onlyB := &api.Offload{Namespaces: []string{"b"}}
	for what, c := range map[string]struct {
		b       *api.Offload      // of the request of b
		used    map[string]string // by the pods of namespaces
		granted string            // to all
		want    string            // granted to a, used by a; the same of b; used by all
	}{
		"each its own":     {onlyB, map[string]string{"a": "1", "b": "500m"}, "6", "4 1 2 500m 1500m"},
		"one uses nothing": {onlyB, map[string]string{"a": "600m"}, "6", "4 600m 2 0 600m"},
		"too much":         {onlyB, map[string]string{"a": "5", "b": "1"}, "6", "4 4 2 1 6"},
		"pods of others":   {onlyB, map[string]string{"a": "1", "else": "1"}, "6", "4 1 2 0 2"},
		"any namespace":    {nil, map[string]string{"a": "5", "else": "500m"}, "6", "4 4 2 1500m 5500m"},
		"a is of both": {&api.Offload{Namespaces: []string{"b", "a"}}, map[string]string{"a": "5"}, "6",
			"4 4 2 1 5"},
		"a part is granted":    {onlyB, map[string]string{"a": "1", "b": "1"}, "5", "4 1 1 1 2"},
		"more is granted":      {onlyB, nil, "9", "4 0 2 0 0"},
		"one has all of a few": {onlyB, nil, "3", "3 0 0 0 0"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newTenants(t)
			w.grants = func(s *authv1beta1.ResourceSliceStatus) {
				s.Resources = corev1.ResourceList{"cpu": resource.MustParse(c.granted)}
			}
			for _, name := range []string{"a", "b"} {
				w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
					Labels: map[string]string{"bourse.dev/requests-from": "b"}}})
			}
			w.binds("a", &api.Offload{Namespaces: []string{"a"}}, "4")
			w.binds("b", c.b, "2")
			for name, cpu := range c.used {
				w.used[name] = transporttest.CPU(cpu)
			}
			w.serve()
			w.clock.SetTime(w.clock.Now().Add(time.Minute)) // what passes by itself is not shown
			w.serve()
			var got []string
			var sum api.InstructionStatus
			for _, name := range []string{"a", "b"} {
				var i api.ReservationInstruction
				w.get(name, "of-"+name, &i)
				sum = i.Status
				got = append(got, sum.Granted.Cpu().String(), sum.Used.Cpu().String())
			}
			if sum.Account == nil || sum.SharedBy != 2 {
				t.Fatalf("the account is %+v of %d", sum.Account, sum.SharedBy)
			}
			if got := strings.Join(append(got, sum.Account.Used.Cpu().String()), " "); got != c.want {
				t.Errorf("shown are %s, want %s", got, c.want)
			}
		})
	}
}
