// Package kubeobject is how Bourse's controllers deal with the objects of a cluster. [Error] says in
// the codes of the API what an API server answered. [Status] writes a status, so that several writers
// of one object do not undo each other. [Trigger] asks a controller to look at an object again.
package kubeobject

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bourse-dev/bourse/api"
)

// Error translates an error of an API server into one with a code. An error that has a code already
// is returned as it is, and nil as nil. One of an invalid object names the first field that is wrong.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	code := api.CodeUnavailable
	switch {
	case apierrors.IsNotFound(err):
		code = api.CodeNotFound
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		code = api.CodeConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		code = api.CodeInvalid
	case apierrors.IsForbidden(err):
		code = api.CodeForbidden
	}
	if status := apierrors.APIStatus(nil); code == api.CodeInvalid && errors.As(err, &status) {
		if d := status.Status().Details; d != nil && len(d.Causes) > 0 && d.Causes[0].Field != "" {
			return api.Invalid(d.Causes[0].Field, "%s", d.Causes[0].Message)
		}
	}
	return api.Errorf(code, "%s", err)
}
