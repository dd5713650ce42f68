package kubeobject_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

func TestErrorsHaveCodes(t *testing.T) {
	peers, refused := schema.GroupResource{Group: api.Group, Resource: "peers"}, errors.New("refused")
	for _, c := range []struct {
		err  error
		want api.Code
	}{
		{apierrors.NewNotFound(peers, "rome"), api.CodeNotFound},
		{fmt.Errorf("read: %w", apierrors.NewNotFound(peers, "rome")), api.CodeNotFound},
		{apierrors.NewAlreadyExists(peers, "rome"), api.CodeConflict},
		{apierrors.NewConflict(peers, "rome", refused), api.CodeConflict},
		{apierrors.NewBadRequest("refused"), api.CodeInvalid},
		{apierrors.NewInvalid(schema.GroupKind{Group: api.Group, Kind: "Peer"}, "rome", nil), api.CodeInvalid},
		{apierrors.NewForbidden(peers, "rome", refused), api.CodeForbidden},
		{apierrors.NewTooManyRequestsError("later"), api.CodeUnavailable},
		{refused, api.CodeUnavailable},
		{api.Errorf(api.CodeKeyChanged, "another key"), api.CodeKeyChanged},
	} {
		if got := api.CodeOf(kubeobject.Error(c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	wrong := field.ErrorList{field.Invalid(field.NewPath("spec", "percentage"), 180, "too much")}
	err := kubeobject.Error(apierrors.NewInvalid(schema.GroupKind{Group: api.Group, Kind: "SharingPolicy"}, "default", wrong))
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Field != "spec.percentage" || e.Detail != "Invalid value: 180: too much" {
		t.Errorf("an invalid field: %v", err)
	}
	if err := kubeobject.Error(nil); err != nil {
		t.Error(err)
	}
}
