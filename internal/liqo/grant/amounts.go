package grant

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// grantOf returns the owed resources, 0 of each resource granted before, and a number of pods, because
// without one nothing runs.
func grantOf(owed api.Resources, before corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range before {
		out[name] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	maps.Copy(out, owed)
	if _, asked := owed[corev1.ResourcePods]; !asked {
		out[corev1.ResourcePods] = *resource.NewQuantity(podSlots(owed), resource.DecimalSI)
	}
	return out
}

// wished returns the owed resources, or less where the consumer's slice asks for less: the consumer makes its
// virtual node smaller before it gives up a reservation.
func wished(owed api.Resources, wish corev1.ResourceList) api.Resources {
	out := maps.Clone(owed)
	for name, amount := range wish {
		if has, ok := owed[name]; ok && amount.Sign() > 0 && amount.Cmp(has) < 0 {
			out[name] = amount
		}
	}
	return out
}

// Grant returns the grant of an account with these reservations.
func Grant(owed api.Resources) api.Resources { return api.Resources(grantOf(owed, nil)) }

// AtMost returns what a virtual node gets of a grant: of each resource no more than what its account asked for.
func AtMost(granted corev1.ResourceList, asked api.Resources) corev1.ResourceList {
	return lesser(grantOf(asked, nil), granted)
}

// lesser returns a grant in which no resource exceeds the one before.
func lesser(grant, before corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, was := range before {
		out[name] = was
		if now := grant[name]; now.Cmp(was) < 0 {
			out[name] = now
		}
	}
	return out
}

// podSlots returns the number of pods for reservations that name none: 110, Kubernetes' limit for a
// node, or 16 per CPU; 0 without reservations.
func podSlots(owed api.Resources) int64 {
	if len(owed) == 0 {
		return 0
	}
	cpu := owed[corev1.ResourceCPU]
	return max(110, 16*cpu.Value())
}

// Graces are how long pods may stay that a reservation no longer covers.
type Graces struct {
	// Shrink is how long the consumer has to move pods away before they overstay.
	Shrink time.Duration
	// Excess is how long pods may then exceed the grant until they are deleted.
	Excess time.Duration
}

// Covers returns what the pods of an account may use: what it is owed, and what ends within its
// graces. It adds the pods that are granted where no reservation names a number of pods. It is nil
// if there is neither.
func Covers(owed, ending amounts.List) (amounts.List, error) {
	both := owed.Plus(ending)
	if len(both) == 0 {
		return nil, nil
	}
	most, err := amounts.ParseCapacity("granted", Grant(both.Resources()))
	if err != nil || len(owed) == 0 || len(ending) == 0 {
		return most, err
	}
	// what ends may name fewer pods than are granted now
	granted, err := amounts.ParseCapacity("granted", Grant(owed.Resources()))
	return most.Max(granted), err
}

// firstFew names a few reservations, and says how many others there are: the consumer copies the text for each.
func firstFew(reservations []string) string {
	const few = 8
	if len(reservations) <= few {
		return strings.Join(reservations, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(reservations[:few], ", "), len(reservations)-few)
}
