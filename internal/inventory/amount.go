package inventory

import (
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// implausible is more than a node or a pod has of any resource: 8 PiB, or 9 trillion cores. A sentinel or a lie
// of that size would dominate the sums of a pool.
const implausible = 1 << 53

// amountsOf converts quantities. It rounds up as the scheduler does, sorts, and drops zeros. It limits impossible
// amounts to between 0 and implausible, and returns their names.
func amountsOf(quantities corev1.ResourceList) (list amounts.List, untrue []string) {
	list = make(amounts.List, 0, len(quantities))
	for name, quantity := range quantities {
		n, ok := within(implausible, name, quantity)
		if !ok {
			untrue = append(untrue, string(name))
		}
		if n > 0 {
			list = append(list, amounts.Amount{Resource: string(name), Value: n})
		}
	}
	slices.SortFunc(list, func(a, b amounts.Amount) int { return strings.Compare(a.Resource, b.Resource) })
	slices.Sort(untrue)
	return list, untrue
}

// within converts a quantity to thousandths of cpu, or to units. It reports whether the result is between 0
// and most, and otherwise returns the nearer of both. Quantities have no bounds, and their own conversions
// overflow.
func within(most int64, name corev1.ResourceName, q resource.Quantity) (n int64, ok bool) {
	scale, limit := resource.Scale(0), most
	if name == corev1.ResourceCPU {
		scale, limit = resource.Milli, most/1000
	}
	switch {
	case q.Sign() < 0:
		return 0, false
	case q.CmpInt64(limit) > 0:
		return most, false
	}
	return q.ScaledValue(scale), true
}

// sum is a sum of amounts in 128 bits. It is exact, so that added amounts can be subtracted again. It
// saturates when read.
type sum struct{ high, low uint64 }

func (s sum) plus(o sum) sum {
	low, carry := bits.Add64(s.low, o.low, 0)
	return sum{s.high + o.high + carry, low}
}

func (s sum) minus(o sum) sum {
	low, borrow := bits.Sub64(s.low, o.low, 0)
	return sum{s.high - o.high - borrow, low}
}

func (s sum) int64() int64 {
	if s.high > 0 || s.low > amounts.Max {
		return amounts.Max
	}
	return int64(s.low)
}

// totals are sums by resource, without zeros.
type totals map[string]sum

func (t totals) add(list amounts.List) {
	for _, a := range list {
		t[a.Resource] = t[a.Resource].plus(sum{low: uint64(a.Value)})
	}
}

func (t totals) take(list amounts.List) {
	for _, a := range list {
		if rest := t[a.Resource].minus(sum{low: uint64(a.Value)}); rest == (sum{}) {
			delete(t, a.Resource)
		} else {
			t[a.Resource] = rest
		}
	}
}

func (t totals) addAll(o totals) {
	for name, s := range o {
		t[name] = t[name].plus(s)
	}
}

// byOwner are totals by the owner of the pods.
type byOwner map[string]totals

// of returns the owner's totals. The caller may add to them.
func (b byOwner) of(owner string) totals {
	if b[owner] == nil {
		b[owner] = totals{}
	}
	return b[owner]
}

// resources converts the totals to quantities.
func (t totals) resources() api.Resources {
	resources := make(api.Resources, len(t))
	for name, s := range t {
		resources[corev1.ResourceName(name)] = amounts.Amount{Resource: name, Value: s.int64()}.Quantity()
	}
	return resources
}
