package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// endless are amounts that Kubernetes' parser would not finish within hours, or that no cluster has.
var endless = []string{
	`"1e-999999999"`, `1e-999999999`, `2E6000000000`, `"2E6000000000"`, `"1\u0065-999999999"`,
	`"` + strings.Repeat("9", 1000) + `"`, strings.Repeat("9", 1000),
}

// Every operation of both APIs refuses a body with such an amount, wherever the amount stands in it.
func TestEndlessAmounts(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	answerAmounts(t, f.URL, f.Join("rome").HTTP)
	agent := httptest.NewServer(server.Local(nil, nil, 1e9, slog.New(slog.DiscardHandler)).For(server.LocalUser))
	defer agent.Close()
	answerAmounts(t, agent.URL, agent.Client())
}

func answerAmounts(t *testing.T, url string, caller *http.Client) {
	t.Helper()
	answer, err := caller.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var d description
	if err := json.NewDecoder(answer.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	if pattern := d.Components.Schemas["Quantity"]; pattern.Pattern != api.QuantityPattern ||
		pattern.MaxLength != api.QuantityLength {
		t.Errorf("an amount has the pattern %s and at most %d characters", pattern.Pattern, pattern.MaxLength)
	}
	sent := 0
	for path, methods := range d.Paths {
		for method, o := range methods {
			for _, amount := range endless {
				body, err := json.Marshal(d.sample(o.RequestBody.Content["application/json"].Schema, json.RawMessage(amount), nil))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(body, []byte(amount)) {
					continue
				}
				sent++
				path := strings.NewReplacer("{cluster}", "rome", "{namespace}", "a", "{", "", "}", "").Replace(path)
				send(t, caller, strings.ToUpper(method), url+path, body)
			}
		}
	}
	if sent < 2*len(endless) {
		t.Errorf("only %d bodies with an amount were sent", sent)
	}
}

// send panics if there is no answer, because the call goes on for hours and the test would wait for it.
func send(t *testing.T, caller *http.Client, method, url string, body []byte) {
	t.Helper()
	call, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	call.Header.Set("Content-Type", "application/json")
	slow := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("%s %s takes more than a minute: %s", method, url, body)) })
	answer, err := caller.Do(call)
	slow.Stop()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%s %s: %s %.300s for %.300s", method, url, answer.Status, text, body)
	}
}

// description is what the test needs of an OpenAPI document.
type description struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Pattern, Format      string
	MaxLength            int
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties any
}

// sample returns a value of a schema in which each amount is the given one, or nil. Within are the schemas around it.
func (d *description) sample(s schema, amount json.RawMessage, within []string) any {
	name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	switch {
	case name == "Quantity":
		return amount
	case name != "" && strings.Contains(strings.Join(within, " "), name):
		return nil
	case name != "":
		return d.sample(d.Components.Schemas[name], amount, append(within, name))
	case s.Items != nil:
		if item := d.sample(*s.Items, amount, within); item != nil {
			return []any{item}
		}
		return nil
	}
	if more, ok := s.AdditionalProperties.(map[string]any); ok {
		var of schema
		encoded, _ := json.Marshal(more)
		_ = json.Unmarshal(encoded, &of)
		if value := d.sample(of, amount, within); value != nil {
			return map[string]any{"cpu": value}
		}
		return nil
	}
	object := map[string]any{}
	for field, of := range s.Properties {
		if value := d.sample(of, amount, within); value != nil {
			object[field] = value
		}
	}
	if len(object) == 0 {
		return nil
	}
	return object
}
