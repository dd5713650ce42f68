package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
)

// problem turns what the REST framework finds wrong with a call into our error.
func problem(status int, message string, errs ...error) huma.StatusError {
	code := api.CodeInternal
	switch {
	case status == http.StatusRequestEntityTooLarge:
		code = api.CodeTooLarge
	case status == http.StatusNotFound:
		code = api.CodeNotFound
	case status == http.StatusPreconditionFailed:
		code = api.CodePrecondition
	case status == http.StatusRequestTimeout:
		code = api.CodeUnavailable
	case status < 500:
		code = api.CodeInvalid
	}
	e := api.Errorf(code, "%s", message)
	for i, err := range errs {
		if ours, ok := errors.AsType[*api.Error](err); ok {
			return ours
		}
		detail, ok := errors.AsType[*huma.ErrorDetail](err)
		switch {
		case !ok:
			e.Detail += ": " + err.Error()
		case i == 0:
			e.Field, e.Detail = detail.Location, detail.Message
		}
	}
	return e
}

// wrap makes any error one that the REST framework answers with our body.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if ours, ok := errors.AsType[*api.Error](err); ok {
		return ours
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(api.CodeUnavailable, "the call ended before its answer")
	}
	return api.Errorf(api.CodeInternal, "%s", err)
}

// Refuse answers a call with an error.
func Refuse(w http.ResponseWriter, err error) {
	var e *api.Error
	if !errors.As(wrap(err), &e) {
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e)
}
