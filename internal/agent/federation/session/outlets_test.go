package session

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// Without a broker nothing is shown anywhere, which is no failure of a broker: an offer waits for none.
func TestShownNowhere(t *testing.T) {
	_, err := Outlets{Sessions: &Sessions{}}.Shown(t.Context(), api.CatalogQuery{})
	if api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the error is %v", err)
	}
}
