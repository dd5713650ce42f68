package api_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// An error that quotes another one has one code.
func TestAnErrorHasOneCode(t *testing.T) {
	args := []any{"milan", api.Invalid("price", "is negative").Fix("write 0.10EUR")}
	err := api.Errorf(api.CodeInvalid, "plan of %s: %s", args...)
	if want := "Invalid: plan of milan: price: is negative; write 0.10EUR"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if _, same := args[1].(*api.Error); !same {
		t.Error("the arguments of the caller changed")
	}
}
