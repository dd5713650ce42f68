package distributedcatalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/server"
)

// maxBody bounds the body of a call, in bytes, as the prototype did.
const maxBody = 100 << 10

// inside carries calls to Bourse's API in memory.
type inside struct {
	next   http.Handler
	state  *tls.ConnectionState
	remote string
}

// api is a client that calls as the caller of that connection. Of the context of a call only its
// end is handed on, and that the call is part of another: what is known of the connection that it
// came by can be of another caller.
func (i inside) api() *client.Client {
	return client.New("http://inside", &http.Client{Transport: i})
}

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(server.Within(context.Background(), r.Context()))
	defer cancel()
	stop := context.AfterFunc(r.Context(), cancel)
	defer stop()
	call := r.Clone(ctx)
	call.TLS, call.RemoteAddr = i.state, i.remote
	answer := server.Inside(i.next, call)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return answer, nil
}

// serve serves the prototype's routes, and by next all others. A path that is not written plainly
// is not one of them.
func serve(mux *http.ServeMux, next http.Handler) http.Handler {
	mux.Handle("/", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean("/"+r.URL.Path) != r.URL.Path {
			next.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// readBody reads the JSON of a call. Errors: Invalid, TooLarge.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return api.Errorf(api.CodeTooLarge, "the body has more than %d bytes", maxBody).Fix("send less at once")
	}
	if err != nil {
		return api.Invalid("body", "it broke off").Fix("send it again")
	}
	err = payload.Unmarshal(data, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return api.Invalid(cmp.Or(wrong.Field, "body"), "a %s does not belong here", wrong.Value).
			Fix("see docs/migrate-catalog.md")
	}
	if err != nil {
		return api.Invalid("body", "it is not the JSON that belongs here: %.200s", err).Fix("see docs/migrate-catalog.md")
	}
	return nil
}

// failure is the body of an answer that is not a success.
type failure struct {
	Status  string `json:"status"`
	Error   string `json:"error"`
	Message string `json:"message"` // what the prototype's own pages show
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// ContractID is that of the contract that stands in the way, if one does.
	ContractID string `json:"contractId,omitempty"`
}

// failed is an error in the prototype's words, and its HTTP status: input that is wrong is a 400.
func failed(err error) (failure, int) {
	wrong, ok := errors.AsType[*api.Error](err)
	if !ok {
		wrong = api.Errorf(api.CodeInternal, "%s", err)
	}
	text := wrong.Detail
	if wrong.Field != "" {
		text = wrong.Field + ": " + text
	}
	if wrong.Remedy != "" {
		text += "; " + wrong.Remedy
	}
	status := wrong.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	there, _ := errors.AsType[taken](err)
	return failure{Status: "error", Error: text, Message: text,
		Code: string(wrong.Code), Field: wrong.Field, Remedy: wrong.Remedy, ContractID: there.contract}, status
}

func answerJSON(w http.ResponseWriter, status int, payload any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = writeJSON(w, payload)
	_, _ = io.WriteString(w, "\n")
}

// writeJSON writes a payload, of a catalog one provider at a time: no more of it is held encoded.
func writeJSON(w io.Writer, payload any) error {
	catalog, ok := payload.([]Catalog)
	if !ok || len(catalog) == 0 {
		data, err := json.Marshal(payload)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	before := "["
	for i := range catalog {
		data, err := json.Marshal(&catalog[i])
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, before); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		before = ","
	}
	_, err := io.WriteString(w, "]")
	return err
}

// brokerID names a broker by its URL, in the form that the prototype has.
func brokerID(url string) string {
	sum := sha256.Sum256([]byte(url))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
