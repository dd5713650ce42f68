// Package amountstest has what tests of amounts share. Start at [Resources].
package amountstest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

// Resources makes resources of pairs of name and quantity. It panics at what is no quantity.
func Resources(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// CheckInvalid checks that an error names the field and the remedy, on one short line.
func CheckInvalid(t testing.TB, err error, field string) {
	t.Helper()
	e, ok := err.(*api.Error)
	if !ok || e.Code != api.CodeInvalid || !strings.HasPrefix(e.Field, field) {
		t.Fatalf("got %v, want Invalid at %s", err, field)
	}
	if line := e.Error(); len(line) > 600 || strings.ContainsAny(line, "\n\x00") {
		t.Errorf("not one short line: %q", line)
	}
}
