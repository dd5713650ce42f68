package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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

// Close does not wait for a call that waits for an agent.
func TestCloseEndsCallsInFlight(t *testing.T) {
	var reads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reads.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&api.Session{}) // no agent answers it
	}))
	defer server.Close()
	asks, asker, err := cluster.NewAsker(&rest.Config{Host: server.URL}, "team")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := asks.Status(context.Background())
		ended <- err
	}()
	for reads.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	_ = asker.Close(t.Context())
	if err := <-ended; err == nil {
		t.Error("the call has an answer")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Close took %s", took)
	}
}
