package session_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
)

// While the switch is off there are no calls; switching off ends those that are under way.
func TestSwitch(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begins\n")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/watch" {
			<-r.Context().Done()
		}
	}))
	defer broker.Close()
	s := session.NewSwitch("eu", http.DefaultTransport)
	c := &http.Client{Transport: s}
	get := func(path string) (*http.Response, error) { return c.Get(broker.URL + path) }

	watch, err := get("/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	if s.Set(true) {
		t.Error("it was on already")
	}
	if !s.Set(false) || !s.IsOff() {
		t.Error("it is not off")
	}
	if _, err := io.ReadAll(watch.Body); err == nil {
		t.Error("a call that is under way goes on")
	}
	if _, err := get("/"); err == nil || !strings.Contains(err.Error(), "bourse brokers enable eu") {
		t.Errorf("while it is off: %v", err)
	}
	if err := s.CheckOn(); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("while it is off: %v", err)
	}
	if !s.Set(true) || s.IsOff() || s.CheckOn() != nil {
		t.Error("it is not on")
	}
	answer, err := get("/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "begins\n" {
		t.Errorf("%q %v", text, err)
	}
	if (*session.Switch)(nil).IsOff() {
		t.Error("a nil switch is off")
	}
}

// Where there is no broker, nothing switches its calls on.
func TestNoBroker(t *testing.T) {
	s := session.NoBroker()
	if s.Set(true) || !s.IsOff() || !s.IsNone() {
		t.Error("it can be switched on")
	}
	if err := s.CheckOn(); api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "no broker") {
		t.Error(err)
	}
	if session.NewSwitch("eu", http.DefaultTransport).IsNone() || (*session.Switch)(nil).IsNone() {
		t.Error("a broker is none")
	}
}
