// Package amounts calculates with amounts of resources as whole numbers. The market, the agent and the planner use it
// instead of quantities of Kubernetes.
//
// Start at [List]. [ParseRequest] and [ParseCapacity] make one of quantities, and [List.Resources] converts it back.
package amounts

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

// Amount is a whole number of a resource: thousandths for "cpu", units (bytes,
// devices, pods) for every other.
type Amount struct {
	Resource string `json:"r"`
	Value    int64  `json:"v"`
}

// List has amounts of several resources, sorted by resource, each once. It is a value: every operation returns
// a new one. A resource without an amount has 0.
type List []Amount

// Resources converts back to Kubernetes quantities.
func (a List) Resources() api.Resources {
	if len(a) == 0 {
		return nil
	}
	out := make(api.Resources, len(a))
	for _, x := range a {
		out[corev1.ResourceName(x.Resource)] = x.Quantity()
	}
	return out
}

// Quantity returns the amount in the one spelling that Kubernetes keeps when it reads and writes it, because
// signed documents contain it.
func (x Amount) Quantity() resource.Quantity {
	switch {
	case x.Resource == "cpu":
		return *resource.NewMilliQuantity(x.Value, resource.DecimalSI)
	case x.bytes() && x.Value%1024 == 0: // otherwise it has no suffix, and Kubernetes reads a decimal quantity
		return *resource.NewQuantity(x.Value, resource.BinarySI)
	}
	return *resource.NewQuantity(x.Value, resource.DecimalSI)
}

// bytes reports whether the resource is counted in bytes.
func (x Amount) bytes() bool {
	return slices.Contains([]string{"memory", "ephemeral-storage", "storage"}, x.Resource)
}

// Of returns the amount of one resource.
func (a List) Of(name string) int64 {
	for i := range a {
		if a[i].Resource == name {
			return a[i].Value
		}
	}
	return 0
}

// Fits reports whether each amount is at least as large as needed.
func (a List) Fits(need List) bool {
	return !slices.ContainsFunc(need, func(n Amount) bool { return a.Of(n.Resource) < n.Value })
}

// Plus returns the sum. An overflow gives the nearest int64.
func (a List) Plus(b List) List { return a.merge(b, plus) }

// Minus returns the difference, which may be negative. An overflow gives the nearest int64.
func (a List) Minus(b List) List {
	return a.merge(b, func(x, y int64) int64 { return plus(x, -max(y, -math.MaxInt64)) })
}

func plus(x, y int64) int64 {
	switch sum := x + y; {
	case x > 0 && y > 0 && sum < 0:
		return math.MaxInt64
	case x < 0 && y < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// Max returns the larger amount of each resource.
func (a List) Max(b List) List {
	return a.merge(b, func(x, y int64) int64 { return max(x, y) })
}

// Min returns each amount, or that in b if it is smaller. A resource that is missing in b is 0.
func (a List) Min(b List) List {
	out := slices.Clone(a)
	for i := range out {
		out[i].Value = min(out[i].Value, b.Of(out[i].Resource))
	}
	return out
}

// Beyond returns by how much amounts are larger than in b. Resources without such an amount are left out.
func (a List) Beyond(b List) List {
	return slices.DeleteFunc(a.Minus(b), func(x Amount) bool { return x.Value <= 0 })
}

// Positive reports whether any amount is positive.
func (a List) Positive() bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Value > 0 })
}

// Negative reports whether any amount is below 0.
func (a List) Negative() bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Value < 0 })
}

// Swap replaces the summand out of a sum by in. It drops amounts of 0, so that a sum that lives long does
// not keep every resource that it ever had, and is nil where nothing is left, like one that never had anything.
func (a List) Swap(out, in List) List {
	if out.Equal(in) {
		return a
	}
	sum := a.Plus(in)
	for i := range sum {
		sum[i].Value -= out.Of(sum[i].Resource)
	}
	if sum = slices.DeleteFunc(sum, func(x Amount) bool { return x.Value == 0 }); len(sum) == 0 {
		return nil
	}
	return sum
}

// Only returns the amounts of the resources in named.
func (a List) Only(named List) List {
	other := func(x Amount) bool { return !named.Has(x.Resource) }
	if !slices.ContainsFunc(a, other) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), other)
}

// Has reports whether the list names a resource.
func (a List) Has(resource string) bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Resource == resource })
}

// Equal reports whether all amounts are the same. A missing resource is 0.
func (a List) Equal(b List) bool {
	return !slices.ContainsFunc(a, func(x Amount) bool { return b.Of(x.Resource) != x.Value }) &&
		!slices.ContainsFunc(b, func(x Amount) bool { return a.Of(x.Resource) != x.Value })
}

func (a List) merge(b List, f func(x, y int64) int64) List {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	out := make(List, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		var next Amount
		switch {
		case len(a) > 0 && len(b) > 0 && a[0].Resource == b[0].Resource: // as nearly always
			next, a, b = Amount{a[0].Resource, f(a[0].Value, b[0].Value)}, a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && a[0].Resource < b[0].Resource:
			next, a = Amount{a[0].Resource, f(a[0].Value, 0)}, a[1:]
		default:
			next, b = Amount{b[0].Resource, f(0, b[0].Value)}, b[1:]
		}
		out = append(out, next)
	}
	return out
}
