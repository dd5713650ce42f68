package cluster_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// What will not pass is said at once, with what it is.
func TestAnAPIServerThatRefuses(t *testing.T) {
	answers := func(err *apierrors.StatusError) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			err.ErrStatus.Kind, err.ErrStatus.APIVersion = "Status", "v1"
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(err.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(err.ErrStatus)
		}
	}
	sessions := schema.GroupResource{Group: api.Group, Resource: "sessions"}
	for name, c := range map[string]struct {
		server *httptest.Server
		code   api.Code
		says   string
	}{
		"a user whom it does not know": {httptest.NewServer(answers(apierrors.NewUnauthorized("no"))), api.CodeUnauthenticated,
			"kubectl auth whoami"},
		"another server": {httptest.NewTLSServer(nil), api.CodeInvalid, "certificate-authority-data"},
		"no namespace": {httptest.NewServer(answers(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"))),
			api.CodeNotFound, `no namespace "team"`},
		"no kind": {httptest.NewServer(answers(apierrors.NewNotFound(sessions, ""))), api.CodeNotFound, "no kind Session"},
	} {
		t.Run(name, func(t *testing.T) {
			defer c.server.Close()
			asks, asker, err := cluster.NewAsker(&rest.Config{Host: c.server.URL}, "team")
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			_, err = asks.Status(t.Context())
			if api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v", err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it says so after %s", took)
			}
			_ = asker.Close(t.Context())
		})
	}
}
