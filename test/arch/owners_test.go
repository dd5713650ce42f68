package arch

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// code is what a page shows as code.
var code = regexp.MustCompile("`([A-Za-z.]+)[^`]*`")

// notAField is where the fields of a cell end: after it come annotations and labels.
var notAField = regexp.MustCompile(`annotations?|labels?`)

// The table of requesters in THREAT_MODEL.md names each field of a ResourceRequest, and no other.
func TestEachFieldOfARequestHasAnOwner(t *testing.T) {
	page, err := os.ReadFile("../../THREAT_MODEL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(page), "\n## A requester against another requester\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(chapter) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			continue
		}
		fields := notAField.Split(cells[0], 2)[0]
		for _, found := range code.FindAllStringSubmatch(fields, -1) {
			named[found[1]] = true
		}
	}
	fields := fieldsOf(reflect.TypeFor[api.ResourceRequestSpec](), "")
	for _, field := range fields {
		if !named[field] {
			t.Errorf("the table does not say whose %s is", field)
		}
		delete(named, field)
	}
	for _, other := range slices.Sorted(maps.Keys(named)) {
		t.Errorf("a request has no field %s", other)
	}
	if len(fields) < 30 || !slices.Contains(fields, "offload.reflect.secrets") {
		t.Errorf("of a request only these fields are found: %v", fields)
	}
}

// fieldsOf returns the JSON names of a struct's fields. A nested struct of ours has its own; a price is one field.
func fieldsOf(of reflect.Type, within string) (names []string) {
	for field := range of.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		path, kind := within+name+".", field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case option == "inline":
			names = append(names, fieldsOf(kind, within)...)
		case kind.Kind() == reflect.Struct && kind.PkgPath() == of.PkgPath() && kind != reflect.TypeFor[api.Price]():
			names = append(names, fieldsOf(kind, path)...)
		default:
			names = append(names, within+name)
		}
	}
	return names
}
