package kubeobject_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// An edit is repeated while the API server has a newer version than the cache, and no other error.
func TestEdit(t *testing.T) {
	peers := schema.GroupResource{Group: api.Group, Resource: "peers"}
	for name, c := range map[string]struct {
		first error
		calls int
		code  api.Code
	}{
		"a conflict":               {apierrors.NewConflict(peers, "rome", errors.New("newer")), 2, ""},
		"it was created meanwhile": {apierrors.NewAlreadyExists(peers, "rome"), 2, ""},
		"it is gone":               {apierrors.NewNotFound(peers, "rome"), 1, api.CodeNotFound},
		"nothing is wrong":         {nil, 1, ""},
	} {
		calls := 0
		err := kubeobject.Edit(t.Context(), func() error {
			if calls++; calls == 1 {
				return c.first
			}
			return nil
		})
		if calls != c.calls || err != nil && api.CodeOf(err) != c.code || err == nil && c.code != "" {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}
