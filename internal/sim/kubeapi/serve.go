package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
)

// serve answers one request of a user. A lost connection is http.ErrAbortHandler, which
// net/http and our own transport both turn into a broken one.
func (a *API) serve(w http.ResponseWriter, r *http.Request, u User) {
	a.mu.Lock()
	down, faults := a.down, a.faults
	a.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	if a.discover(w, r) || a.review(w, r, u) {
		return
	}
	q, err := a.understand(r, u)
	if err == nil {
		err = q.authorize()
	}
	if err == nil {
		err = q.fail(faults.Before)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	if q.verb == "watch" {
		if err := a.watch(w, r, q); err != nil {
			refuse(w, err)
		}
		return
	}
	answer, err := a.do(q)
	for _, text := range q.warnings {
		if line, err := net.NewWarningHeader(299, "-", text); err == nil {
			w.Header().Add("Warning", line)
		}
	}
	if err == nil {
		err = q.fail(faults.After)
	}
	switch {
	case err != nil:
		refuse(w, err)
	case q.created:
		reply(w, http.StatusCreated, answer)
	default:
		reply(w, http.StatusOK, answer)
	}
}

// do carries out everything but a watch.
func (a *API) do(q *request) ([]byte, error) {
	var o *object
	var err error
	switch q.verb {
	case "list":
		return a.list(q)
	case "delete":
		return a.delete(q)
	case "deletecollection":
		return a.deleteMany(q)
	case "get":
		o, err = a.get(q)
	case "create":
		o, err = a.create(q)
	case "update":
		o, err = a.update(q)
	case "patch":
		o, err = a.patch(q)
	}
	if err != nil {
		return nil, err
	}
	return q.show(o), nil
}

func (q *request) fail(hook func(verb, resource, ns, name string) error) error {
	if hook == nil {
		return nil
	}
	err := hook(q.verb, q.resource(), q.key.Namespace, q.key.Name)
	if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
		return err
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

func reply(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errLost) {
		panic(http.ErrAbortHandler)
	}
	status := statusOf(err)
	reply(w, int(status.Code), marshal(status))
}

func statusOf(err error) metav1.Status {
	known := apierrors.APIStatus(nil)
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return status
}

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // only for shapes of our own
	}
	return raw
}
