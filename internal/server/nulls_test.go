package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
)

// nulls returns the paths of the arrays and objects of a value that are null, or that its schema permits to be.
func nulls(doc *huma.OpenAPI, s *huma.Schema, value any, at string) (found []string) {
	for s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	switch value := value.(type) {
	case nil:
		if s.Type == huma.TypeArray || s.Type == huma.TypeObject {
			found = append(found, at)
		}
	case []any:
		if s.Nullable {
			found = append(found, "the schema of "+at)
		}
		for _, item := range value {
			found = append(found, nulls(doc, s.Items, item, at+"[]")...)
		}
	case map[string]any:
		for name, field := range value {
			of := s.Properties[name]
			if of == nil {
				of, _ = s.AdditionalProperties.(*huma.Schema)
			}
			if of == nil {
				found = append(found, at+"."+name+", which is not described")
				continue
			}
			found = append(found, nulls(doc, of, field, at+"."+name)...)
		}
	}
	return found
}

// checkNulls fails for each null of an answer, as JSON.
func checkNulls(t *testing.T, doc *huma.OpenAPI, s *huma.Schema, answer []byte, at string) {
	t.Helper()
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		t.Errorf("%s: %v: %.200s", at, err, answer)
	}
	for _, found := range nulls(doc, s, value, at) {
		t.Errorf("null: %s", found)
	}
}

// checkAnswer fails for each null in the answer of an operation.
func checkAnswer(t *testing.T, doc *huma.OpenAPI, o *huma.Operation, status int, body []byte) {
	t.Helper()
	answer := o.Responses[fmt.Sprint(status)]
	if answer == nil {
		answer = o.Responses["default"]
	}
	for _, content := range answer.Content {
		for line := range strings.Lines(string(body)) {
			checkNulls(t, doc, content.Schema, []byte(line), o.OperationID)
		}
	}
}

// operations returns the operations of a description by method and path.
func operations(doc *huma.OpenAPI) map[string]*huma.Operation {
	all := map[string]*huma.Operation{}
	for path, item := range doc.Paths {
		for method, o := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post,
			"PATCH": item.Patch, "DELETE": item.Delete} {
			if o != nil {
				all[method+" "+strings.TrimPrefix(path, api.Prefix)] = o
			}
		}
	}
	return all
}

// Each type of an answer has [] and {} where it has nothing to say.
func TestTypesOfAnswersHaveNoNull(t *testing.T) {
	for _, s := range []*server.Server{servertest.Start(t, servertest.Options{}).Server,
		server.Local(nil, nil, 1, slog.New(slog.DiscardHandler))} {
		doc := s.Description()
		for name, schema := range doc.Components.Schemas.Map() {
			kind := doc.Components.Schemas.TypeFromRef("#/components/schemas/" + name)
			if kind == nil {
				continue // a text
			}
			empty := reflect.New(kind)
			point(empty.Elem())
			answer, err := payload.MarshalAnswer(empty.Interface())
			if err != nil {
				t.Fatal(name, err)
			}
			checkNulls(t, doc, schema, answer, name)
		}
	}
}

// point makes each pointer of a struct point to a zero value. What it points to has a schema of its own.
func point(v reflect.Value) {
	for _, field := range v.Fields() {
		switch {
		case !field.CanSet():
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case field.Kind() == reflect.Struct:
			point(field)
		}
	}
}

// Answers of a broker have no null for an array or an object, whether it has nothing or members and reservations.
func TestAnswersOfABrokerHaveNoNull(t *testing.T) {
	empty := &fixture{Federation: servertest.Start(t, servertest.Options{})}
	empty.rome, empty.milan = empty.Join("rome"), empty.Join("milan")
	good := map[string]bool{}
	for _, w := range []*fixture{empty, newFixture(t)} {
		doc := w.Server.Description()
		all := operations(doc)
		for _, route := range slices.Sorted(maps.Keys(all)) {
			o := all[route]
			method, path, _ := strings.Cut(route, " ")
			path = strings.NewReplacer("{cluster}", "milan", "{id}", w.bound.ID, "{name}", "web", "{step}", "approve").Replace(path)
			by := w.rome.HTTP
			if strings.HasPrefix(forWhom[route], "operator") {
				by = w.OperatorHTTP
			}
			if route == "GET /watch" {
				checkAnswer(t, doc, o, http.StatusOK, watchedLines(t, by, w.URL+api.Prefix+path))
				good[route] = true
				continue
			}
			status, _, body := w.call(t, call{by: by, method: method, path: path, body: bodies[route]})
			good[route] = good[route] || status < 300
			checkAnswer(t, doc, o, status, body)
		}
	}
	for _, route := range []string{"GET /clusters", "GET /clusters/{cluster}", "GET /reservations", "GET /reservations/{id}",
		"GET /members", "GET /tokens", "GET /broker", "GET /catalog", "POST /evaluations", "POST /reservations", "POST /tokens",
		"POST /members/{cluster}/{step}", "PUT /members/{cluster}/caps"} {
		if !good[route] {
			t.Errorf("%s answered only errors", route)
		}
	}
}

// watchedLines returns the lines of a watch up to its first bookmark.
func watchedLines(t *testing.T, by *http.Client, url string) (all []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		all = append(append(all, lines.Bytes()...), '\n')
		if strings.Contains(lines.Text(), string(api.WatchBookmark)) {
			return all
		}
	}
	t.Fatalf("it ended after %s", all)
	return nil
}

// bare is a cluster behind an agent's listener that has nothing, and whose broker has nothing.
type bare struct{ house }

func (*bare) ClustersAfter(context.Context, string, int) ([]api.Envelope[api.Cluster], string, error) {
	return nil, "", nil
}
func (*bare) Catalog(context.Context, api.CatalogQuery) ([]api.Envelope[api.Listing], error) {
	return nil, nil
}
func (*bare) Offer(context.Context, string, string) (o api.Envelope[api.Listing], _ error) {
	return o, nil
}
func (*bare) Reservations(context.Context) ([]transport.Reservation, error)          { return nil, nil }
func (*bare) Reservation(context.Context, string) (r transport.Reservation, _ error) { return r, nil }
func (*bare) Fit(context.Context, api.EvaluationCreate) (e api.Evaluation, _ error)  { return e, nil }
func (*bare) Diagnose(context.Context) (d api.Diagnosis)                             { return d }

// bodiesOfUsers are bodies that the operations of an agent accept.
var bodiesOfUsers = map[string]string{
	"evaluate": `{"request":{}}`, "plan-virtual-node-pool": `{"namespaces":["team"],"max":{}}`,
	"preview-sharing": `{"pools":[{"name":"general"}]}`,
	"rotate-key":      `{"from":"SHA256:x"}`,
}

// Answers of an agent that has nothing to show have no null for an array or an object.
func TestAnswersOfAnAgentHaveNoNull(t *testing.T) {
	b := &bare{}
	b.OnCluster = func(string) (c api.Envelope[api.Cluster], _ error) { return c, nil }
	s := server.Local(b, b, 1e6, servertest.Silent())
	doc := s.Description()
	for route, o := range operations(doc) {
		method, path, _ := strings.Cut(route, " ")
		path = api.Prefix + strings.NewReplacer("{", "", "}", "").Replace(path)
		answer, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(bodiesOfUsers[o.OperationID]))
		if bodiesOfUsers[o.OperationID] != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		s.For(server.LocalUser).ServeHTTP(answer, r)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Code >= 300 {
			t.Errorf("%s (%s) answered %d %s, %v", route, o.OperationID, answer.Code, body, err)
		}
		checkAnswer(t, doc, o, answer.Code, body)
	}
}
