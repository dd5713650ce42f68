package amounts

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
)

const (
	// Max bounds every amount and sum from outside, so that a sum of a few of them cannot overflow.
	Max = 1 << 60
	// MaxRequest bounds what one request asks for. The disks of a large cluster add up to more.
	MaxRequest = Max / 1000
	// MaxResources bounds how many resources one list names.
	MaxResources = 64
	// maxNames bounds the bytes of all names of resources in a request, so that its assignment has at most
	// [api.MaxAssignment] bytes.
	maxNames = 3 << 10
)

// ParseRequest converts requested resources, rounded up. Errors: Invalid at field if an amount is negative or too
// large, if none is positive, if a name is invalid, or if it has too many names.
func ParseRequest(field string, r api.Resources) (List, error) {
	out, err := convert(field, r, MaxRequest, func(q resource.Quantity, scale resource.Scale) int64 {
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
		if name == corev1.ResourceCPU || tooLargeToPrint(q) || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0 {
			continue
		}
		path, below := field+"."+string(name), q.Value()-1
		switch {
		case !inBytes(name):
			return api.Invalid(path, "%s is not a whole number", q.String()).Fix("write %d or %d", max(below, 0), below+1)
		case q.Sign() > 0 && below == 0:
			return api.Invalid(path, "%s is less than a byte", q.String()).Fix("give a unit such as Gi")
		}
	}
	return nil
}

// inBytes reports whether a resource is counted in bytes.
func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || strings.HasSuffix(string(name), "storage") ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ParseCapacity converts existing resources, rounded down. Errors: as ParseRequest, but no amount need be positive.
func ParseCapacity(field string, r api.Resources) (List, error) {
	return convert(field, r, Max, func(q resource.Quantity, scale resource.Scale) int64 {
		v := q.ScaledValue(scale) // rounds up
		if resource.NewScaledQuantity(v, scale).Cmp(q) > 0 {
			v--
		}
		return v
	})
}

// Clamp converts what pods request or nodes say, rounded down, and never fails: a pod must not stop
// what acts on the sum. An amount that is negative or larger than any counts as the nearest that is not. A
// resource without a valid name is left out.
func Clamp(r api.Resources) List {
	out := make(List, 0, len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		single, err := ParseCapacity("", api.Resources{name: r[name]})
		q := r[name]
		switch {
		case err == nil:
			out = append(out, single...)
		case len(validation.IsQualifiedName(string(name))) == 0 && q.Sign() > 0:
			out = append(out, Amount{string(name), Max})
		}
	}
	return out
}

func convert(
	field string, r api.Resources, bound int64, round func(resource.Quantity, resource.Scale) int64,
) (List, error) {
	if len(r) == 0 {
		return nil, nil
	}
	if len(r) > MaxResources {
		return nil, api.Invalid(field, "names %d resources", len(r)).Fix("name at most %d", MaxResources)
	}
	out := make(List, 0, len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q, path, scale := r[name], field+"."+string(name), resource.Scale(0)
		if !ordinary(name) {
			if errs := validation.IsQualifiedName(string(name)); len(errs) > 0 {
				return nil, api.Invalid(field, "%.80q is not the name of a resource", string(name)).Fix("%s", errs[0])
			}
		}
		most := bound
		if name == corev1.ResourceCPU {
			scale, most = resource.Milli, Max/1000
		}
		if tooLargeToPrint(q) {
			return nil, api.Invalid(path, "it has an exponent that no amount has").Fix("give at most %d", most)
		}
		if q.Sign() < 0 {
			return nil, api.Invalid(path, "%s is negative", q.String()).Fix("give an amount of at least 0")
		}
		if q.CmpInt64(most) > 0 {
			return nil, api.Invalid(path, "%s is more than any cluster has", q.String()).Fix("give at most %d", most)
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

// tooLargeToPrint reports whether it would take forever to compare or print a quantity, such as 1e99999999.
func tooLargeToPrint(q resource.Quantity) bool {
	if _, ordinary := q.AsInt64(); ordinary {
		return false
	}
	scale := q.AsDec().Scale()
	return scale < -30 || scale > 30
}
