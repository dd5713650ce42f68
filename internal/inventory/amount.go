package inventory

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

// absurd is more than a node or a pod has of anything, in our integers: 8 PiB, or nine million
// million cores. A sentinel or a lie of that size would drown the sums of a whole pool.
const absurd = 1 << 53

// amount is how much of a resource: milli-CPU, or units of anything else, rounded up as the
// scheduler does; never negative. The name is interned: many pods, few names.
type amount struct {
	of unique.Handle[string]
	n  int64
}

// amountsOf is list in our integers, sorted, without zeros. Amounts that cannot be true are named;
// they are brought between 0 and absurd.
func amountsOf(list corev1.ResourceList) (amounts []amount, untrue []string) {
	amounts = make([]amount, 0, len(list))
	for name, quantity := range list {
		n, ok := within(absurd, name, quantity)
		if !ok {
			untrue = append(untrue, string(name))
		}
		if n > 0 {
			amounts = append(amounts, amount{unique.Make(string(name)), n})
		}
	}
	slices.SortFunc(amounts, func(a, b amount) int { return strings.Compare(a.of.Value(), b.of.Value()) })
	slices.Sort(untrue)
	return amounts, untrue
}

// within is a quantity in our integers, and whether it is between 0 and most; if not, the nearer
// of both. Quantities have no bounds, and their own conversions wrap.
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

// quantity is n in the notation that is usual for the resource.
func quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, name == corev1.ResourceStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

// sum is a sum of amounts in 128 bits: exact, so that what was added can be taken away again,
// which a sum that saturates forbids. It saturates when read.
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
	if s.high > 0 || s.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(s.low)
}

// totals are sums by resource, without zeros.
type totals map[string]sum

func (t totals) add(amounts []amount) {
	for _, a := range amounts {
		t[a.of.Value()] = t[a.of.Value()].plus(sum{low: uint64(a.n)})
	}
}

func (t totals) take(amounts []amount) {
	for _, a := range amounts {
		if rest := t[a.of.Value()].minus(sum{low: uint64(a.n)}); rest == (sum{}) {
			delete(t, a.of.Value())
		} else {
			t[a.of.Value()] = rest
		}
	}
}

func (t totals) addAll(o totals) {
	for name, s := range o {
		t[name] = t[name].plus(s)
	}
}

// byOwner are totals by who made the pods.
type byOwner map[string]totals

// of is the owner's totals, which may be added to.
func (b byOwner) of(owner string) totals {
	if b[owner] == nil {
		b[owner] = totals{}
	}
	return b[owner]
}

// resources are the totals as everyone else writes them.
func (t totals) resources() api.Resources {
	resources := make(api.Resources, len(t))
	for name, s := range t {
		resources[corev1.ResourceName(name)] = quantity(corev1.ResourceName(name), s.int64())
	}
	return resources
}
