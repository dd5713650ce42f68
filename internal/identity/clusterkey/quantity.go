package clusterkey

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityPattern matches every quantity that Kubernetes writes. Kubernetes also reads others: with any
// number of digits, and with exponents that take minutes to read.
var quantityPattern = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

var quantityType = reflect.TypeFor[resource.Quantity]()

// CheckQuantities checks the spelling of all quantities in a JSON payload for the type that into points to.
// It converts nothing. Call it before you decode payload into that type. Error: [ErrPayload].
func CheckQuantities(payload []byte, into any) error {
	t := reflect.TypeOf(into)
	if !hasQuantities(t) {
		return nil
	}
	var value any
	if err := json.Unmarshal(payload, &value); err != nil {
		return fmt.Errorf("%w: %.200s", ErrPayload, err.Error())
	}
	return checkQuantities(t, value)
}

func checkQuantities(t reflect.Type, value any) error {
	if t == quantityType {
		if text, is := value.(string); !is || !quantityPattern.MatchString(text) {
			return fmt.Errorf("%w: %.40q is no quantity as Kubernetes writes it", ErrPayload, fmt.Sprint(value))
		}
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if of := fieldOf(t, name); of != nil {
				if err := checkQuantities(of, inner); err != nil {
					return err
				}
			}
		}
	case []any:
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for _, inner := range value {
			if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
				if err := checkQuantities(t.Elem(), inner); err != nil {
					return err
				}
			}
		}
	default:
		if t.Kind() == reflect.Pointer && value != nil {
			return checkQuantities(t.Elem(), value)
		}
	}
	return nil
}

// fieldOf returns the type of a named field in a JSON object of type t; nil if it contains no quantities.
// Names match without case, as in encoding/json.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for _, f := range quantityFields(t) {
			if strings.EqualFold(f.name, name) {
				return f.of
			}
		}
	}
	return nil
}

// field is a field of a struct type.
type field struct {
	name string // in JSON
	of   reflect.Type
}

// knownFields caches the results of quantityFields, because inspecting a type takes longer than reading most
// documents.
var knownFields sync.Map

// quantityFields returns the fields of a struct type that contain quantities.
func quantityFields(t reflect.Type) (fields []field) {
	if known, is := knownFields.Load(t); is {
		return known.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && hasQuantities(f.Type) {
			fields = append(fields, field{name, f.Type})
		}
	}
	knownFields.Store(t, fields)
	return fields
}

// withQuantities caches the results of hasQuantities.
var withQuantities sync.Map

// hasQuantities reports whether a type contains quantities at any depth.
func hasQuantities(t reflect.Type) bool {
	if t == nil {
		return false
	}
	known, is := withQuantities.Load(t)
	if !is {
		known, _ = withQuantities.LoadOrStore(t, holdsQuantities(t, map[reflect.Type]bool{}))
	}
	return known.(bool)
}

func holdsQuantities(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == quantityType || seen[t] {
		return t == quantityType
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsQuantities(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsQuantities(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
