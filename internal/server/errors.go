package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// unreadable is the message of the REST framework, with status 500, for a body that broke off.
const unreadable = "cannot read request body"

// problem turns an error of the REST framework into ours. If several fields are wrong, it names the first.
func problem(status int, message string, errs ...error) huma.StatusError {
	code := api.CodeInternal
	switch {
	case status == http.StatusRequestEntityTooLarge:
		code = api.CodeTooLarge
	case status == http.StatusRequestTimeout:
		code = api.CodeUnavailable
	case status < 500 || message == unreadable:
		code = api.CodeInvalid
	}
	e := api.Errorf(code, "%s", message)
	switch code {
	case api.CodeInvalid:
		_ = e.Fix("what is expected: /openapi.yaml")
	case api.CodeTooLarge:
		_ = e.Fix("send less at once")
	}
	for i, err := range errs {
		if known, ok := errors.AsType[*api.Error](err); ok {
			return known
		}
		detail, ok := errors.AsType[*huma.ErrorDetail](err)
		switch {
		case !ok:
			e.Detail += ": " + err.Error()
		case i == 0:
			e.Field, e.Detail = strings.TrimPrefix(detail.Location, "body."), detail.Message
		}
	}
	return e
}

// readable explains an error of encoding/json.
func readable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a %s does not belong here", wrong.Field, wrong.Value)
	}
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("this is not JSON, at byte %d: %w", broken.Offset, err)
	}
	return err
}

// under prefixes the field of an error with a path from the whole body.
func under(field string, err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok && e.Field != "" {
		within := *e
		return within.At(field + "." + e.Field)
	}
	return wrap(err)
}

// wrap turns any error into one that the REST framework answers with our body.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*api.Error](err); ok {
		return known
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Errorf(api.CodeUnavailable, "what this call needs did not answer in time, such as an API server that "+
			"stands still").Fix("repeat the call; in a member cluster see: bourse doctor")
	}
	if errors.Is(err, context.Canceled) {
		return api.Errorf(api.CodeUnavailable, "the call ended before its answer")
	}
	return api.Errorf(api.CodeInternal, "%s", err)
}

// Refuse answers a call with an error: a call of a prototype's client in the form that such clients read.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *api.Error
	if !errors.As(wrap(err), &e) {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/healthz" {
		refusePrototype(w, *e)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = payload.Answer(w, e)
}

// refusePrototype answers with an error in the form of the prototypes: `error` says all, and wrong input has
// status 400.
func refusePrototype(w http.ResponseWriter, e api.Error) {
	if e.Status == http.StatusUnprocessableEntity {
		e.Status = http.StatusBadRequest
	}
	if e.Code == api.CodeUnauthenticated && strings.Contains(e.Remedy, "--join") { // a prototype's agent cannot join
		_ = e.Fix("show a client certificate of a CA that the broker accepts, with the cluster as its common " +
			"name: docs/migrate.md")
	}
	type fields api.Error // without its methods
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(struct {
		Error string `json:"error"`
		fields
	}{e.Error(), fields(e)})
}
