package market

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
)

// Amount is a whole number of a resource: thousandths for "cpu", units (bytes,
// devices, pods) for every other.
type Amount struct {
	Resource string `json:"r"`
	Value    int64  `json:"v"`
}

// Amounts are amounts of several resources, sorted by resource, each once. They are values: every
// operation returns new ones. A resource without an amount has 0.
type Amounts []Amount

const (
	// MaxAmount bounds every amount and sum from outside, so that a sum of a few of them cannot overflow.
	MaxAmount = 1 << 60
	// maxRequest bounds what one request asks for. The disks of a large cluster add up to more.
	maxRequest = MaxAmount / 1000
	// maxResources bounds how many resources one set of amounts names.
	maxResources = 64
	// maxNames bounds the bytes of all names of resources in a request, so that its assignment has at most
	// [api.MaxAssignment] bytes.
	maxNames = 3 << 10
)

// ParseRequest converts requested resources, rounded up. Errors: Invalid at field if an amount is
// negative, or none is positive.
func ParseRequest(field string, r api.Resources) (Amounts, error) {
	out, err := convert(field, r, maxRequest, func(q resource.Quantity, scale resource.Scale) int64 {
		return q.ScaledValue(scale)
	})
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(a Amount) bool { return a.Value == 0 })
	if len(out) == 0 {
		return nil, api.Invalid(field, "no positive amount").Fix("ask for some resource, for example cpu: 1")
	}
	names := 0
	for name := range r {
		names += len(name)
	}
	if names > maxNames {
		return nil, api.Invalid(field, "the names of its %d resources take %d bytes", len(r), names).
			Fix("ask for fewer: their names may take %d bytes together", maxNames)
	}
	return out, nil
}

// CheckWhole reports why what is asked for, lent, sold or paid for cannot be reserved exactly: of everything but
// CPU and bytes there are only whole units. CPU below a thousandth, and bytes below one, may be rounded up,
// but there is no memory of less than a byte. Errors: Invalid at field.
func CheckWhole(field string, r api.Resources) error {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q := r[name]
		if name == corev1.ResourceCPU || absurd(q) || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0 {
			continue
		}
		at, below := field+"."+string(name), q.Value()-1
		switch {
		case !inBytes(name):
			return api.Invalid(at, "%s is not a whole number", q.String()).Fix("write %d or %d", max(below, 0), below+1)
		case q.Sign() > 0 && below == 0:
			return api.Invalid(at, "%s is less than a byte", q.String()).Fix("give a unit such as Gi")
		}
	}
	return nil
}

// inBytes reports whether a resource is counted in bytes.
func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || strings.HasSuffix(string(name), "storage") ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ParseCapacity converts existing resources, rounded down. Errors: Invalid at field if an amount is negative.
func ParseCapacity(field string, r api.Resources) (Amounts, error) {
	return convert(field, r, MaxAmount, func(q resource.Quantity, scale resource.Scale) int64 {
		v := q.ScaledValue(scale) // rounds up
		if resource.NewScaledQuantity(v, scale).Cmp(q) > 0 {
			v--
		}
		return v
	})
}

// ClampAmounts converts what pods request or nodes say, rounded down, and never fails: a pod must not stop
// what acts on the sum. An amount that is negative or larger than any counts as the nearest that is not. A
// resource without a valid name is left out.
func ClampAmounts(r api.Resources) Amounts {
	out := make(Amounts, 0, len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		one, err := ParseCapacity("", api.Resources{name: r[name]})
		q := r[name]
		switch {
		case err == nil:
			out = append(out, one...)
		case len(validation.IsQualifiedName(string(name))) == 0 && q.Sign() > 0:
			out = append(out, Amount{string(name), MaxAmount})
		}
	}
	return out
}

func convert(field string, r api.Resources, bound int64, round func(resource.Quantity, resource.Scale) int64) (Amounts, error) {
	if len(r) == 0 {
		return nil, nil
	}
	if len(r) > maxResources {
		return nil, api.Invalid(field, "names %d resources", len(r)).Fix("name at most %d", maxResources)
	}
	out := make(Amounts, 0, len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q, at, scale := r[name], field+"."+string(name), resource.Scale(0)
		if !ordinary(name) {
			if errs := validation.IsQualifiedName(string(name)); len(errs) > 0 {
				return nil, api.Invalid(field, "%.80q is not the name of a resource", string(name)).Fix("%s", errs[0])
			}
		}
		most := bound
		if name == corev1.ResourceCPU {
			scale, most = resource.Milli, MaxAmount/1000
		}
		if absurd(q) {
			return nil, api.Invalid(at, "it has an exponent that no amount has").Fix("give at most %d", most)
		}
		if q.Sign() < 0 {
			return nil, api.Invalid(at, "%s is negative", q.String()).Fix("give an amount of at least 0")
		}
		if q.CmpInt64(most) > 0 {
			return nil, api.Invalid(at, "%s is more than any cluster has", q.String()).Fix("give at most %d", most)
		}
		out = append(out, Amount{string(name), round(q, scale)})
	}
	return out, nil
}

// ordinary reports whether every node has the resource. Such a name needs no check.
func ordinary(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// absurd reports whether it would take forever to compare or print a quantity, such as 1e99999999.
func absurd(q resource.Quantity) bool {
	if _, ordinary := q.AsInt64(); ordinary {
		return false
	}
	scale := q.AsDec().Scale()
	return scale < -30 || scale > 30
}

// Resources converts back to Kubernetes quantities.
func (a Amounts) Resources() api.Resources {
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
	switch x.Resource {
	case "cpu":
		return *resource.NewMilliQuantity(x.Value, resource.DecimalSI)
	case "memory", "ephemeral-storage", "storage":
		if x.Value%1024 == 0 { // otherwise it has no suffix, and Kubernetes reads a decimal quantity
			return *resource.NewQuantity(x.Value, resource.BinarySI)
		}
	}
	return *resource.NewQuantity(x.Value, resource.DecimalSI)
}

// Of returns the amount of one resource.
func (a Amounts) Of(name string) int64 {
	for i := range a {
		if a[i].Resource == name {
			return a[i].Value
		}
	}
	return 0
}

// Fits reports whether each amount is at least as large as needed.
func (a Amounts) Fits(need Amounts) bool {
	return !slices.ContainsFunc(need, func(n Amount) bool { return a.Of(n.Resource) < n.Value })
}

// Plus returns the sum. An overflow gives the nearest int64.
func (a Amounts) Plus(b Amounts) Amounts { return a.merge(b, plus) }

// Minus returns the difference, which may be negative. An overflow gives the nearest int64.
func (a Amounts) Minus(b Amounts) Amounts {
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
func (a Amounts) Max(b Amounts) Amounts {
	return a.merge(b, func(x, y int64) int64 { return max(x, y) })
}

// Min returns each amount, or that in b if it is smaller. A resource that is missing in b is 0.
func (a Amounts) Min(b Amounts) Amounts {
	out := slices.Clone(a)
	for i := range out {
		out[i].Value = min(out[i].Value, b.Of(out[i].Resource))
	}
	return out
}

// Beyond returns by how much amounts are larger than in b. Resources without such an amount are left out.
func (a Amounts) Beyond(b Amounts) Amounts {
	return slices.DeleteFunc(a.Minus(b), func(x Amount) bool { return x.Value <= 0 })
}

// isPositive reports whether any amount is positive.
func (a Amounts) isPositive() bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Value > 0 })
}

// Negative reports whether any amount is below 0.
func (a Amounts) Negative() bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Value < 0 })
}

// Swap replaces the summand out of a sum by in. It drops amounts of 0, so that a sum that lives long does
// not keep every resource that it ever had, and is nil where nothing is left, like one that never had anything.
func (a Amounts) Swap(out, in Amounts) Amounts {
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
func (a Amounts) Only(named Amounts) Amounts {
	other := func(x Amount) bool { return !named.names(x.Resource) }
	if !slices.ContainsFunc(a, other) {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), other)
}

func (a Amounts) names(resource string) bool {
	return slices.ContainsFunc(a, func(x Amount) bool { return x.Resource == resource })
}

// Equal reports whether all amounts are the same. A missing resource is 0.
func (a Amounts) Equal(b Amounts) bool {
	return !slices.ContainsFunc(a, func(x Amount) bool { return b.Of(x.Resource) != x.Value }) &&
		!slices.ContainsFunc(b, func(x Amount) bool { return a.Of(x.Resource) != x.Value })
}

func (a Amounts) merge(b Amounts, f func(x, y int64) int64) Amounts {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	out := make(Amounts, 0, max(len(a), len(b)))
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
