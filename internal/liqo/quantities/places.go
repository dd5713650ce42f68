// Package quantities keeps amounts that would stop a program out of what it reads of Liqo's objects. To read
// 1e-999999999 takes hours and gigabytes, and nothing ends it; Liqo's CRDs accept it, and peers write such objects.
//
// Start at [Checked]: its Wrap makes a client of Kubernetes look at the text of every amount before anything
// decodes it.
package quantities

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// place is where amounts are in JSON, by what leads there: a field; items, of a list; values, of a map.
type place map[string]place

const (
	items  = "[]"
	values = "{}"
)

// amount is a place that is an amount itself.
var amount = place{}

// placesIn returns the amounts that a type decodes; nil if there are none. A type that contains itself is
// followed once.
func placesIn(t reflect.Type, within ...reflect.Type) place {
	if t == reflect.TypeFor[resource.Quantity]() {
		return amount
	}
	if slices.Contains(within, t) {
		return nil
	}
	within = append(slices.Clip(within), t)
	all := place{}
	add := func(step string, below reflect.Type) {
		if p := placesIn(below, within...); p != nil {
			all[step] = p
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return placesIn(t.Elem(), within...)
	case reflect.Slice, reflect.Array:
		add(items, t.Elem())
	case reflect.Map:
		add(values, t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				add(name, f.Type)
			} else if f.Anonymous {
				maps.Copy(all, placesIn(f.Type, within...))
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Places returns where a type decodes amounts, sorted, such as spec.pod.containers[].resources.limits{}.
func Places(t reflect.Type) (all []string) {
	placesIn(t).each("", func(path string) { all = append(all, path) })
	slices.Sort(all)
	return all
}

func (p place) each(path string, found func(string)) {
	for step, below := range p {
		next := strings.TrimPrefix(path+"."+step, ".")
		if step == items || step == values {
			next = path + step
		}
		if len(below) == 0 {
			found(next)
		}
		below.each(next, found)
	}
}
