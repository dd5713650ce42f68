package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// call is hostile input and the answer that it must get. Path is under the API's prefix.
type call struct {
	name   string
	by     *http.Client
	method string
	path   string
	header map[string]string
	body   string
	want   api.Code
	field  string // the JSON path, or where else the wrong thing is
	says   string // part of the detail
}

// fixture is a federation in which each state of a reservation occurs: rome borrows from milan.
// oslo is another member, lima waits for approval, nobody has no certificate.
type fixture struct {
	*servertest.Federation
	log                     *countingJournal
	rome, milan, oslo, lima *servertest.Member
	nobody                  *http.Client
	// unsigned is held, signed is held with rome's assignment, bound is Reserved.
	unsigned, signed, bound client.Reservation
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	log := &countingJournal{Journal: memorytest.New(), t: t}
	f := servertest.Start(t, servertest.Options{Journal: log})
	w := &fixture{Federation: f, log: log, rome: f.Join("rome"), milan: f.Join("milan"),
		oslo: f.Join("oslo"), lima: f.Enter("lima", f.Token("")), nobody: f.StrangerHTTP()}
	w.milan.Advertise("100")
	w.unsigned, w.signed, w.bound = w.hold(t, "unsigned"), w.hold(t, "signed"), w.hold(t, "bound")
	w.signed, w.bound = w.confirm(t, w.signed), w.confirm(t, w.bound)
	var err error
	if w.bound, err = w.milan.Accept(context.Background(), w.bound.ID, w.milan.Agree(w.bound)); err != nil {
		t.Fatal(err)
	}
	w.bound, err = w.rome.Reservation(context.Background(), w.bound.ID)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) hold(t *testing.T, key string) client.Reservation {
	t.Helper()
	r, err := w.rome.Reserve(context.Background(), key, transporttest.Request("1"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *fixture) confirm(t *testing.T, r client.Reservation) client.Reservation {
	t.Helper()
	r, err := w.rome.Confirm(context.Background(), r.ID, w.rome.Assign(r))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused makes the calls and checks that each gets its error and changes nothing.
func (w *fixture) refused(t *testing.T, calls []call) {
	for _, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			before := w.everything(t)
			status, header, answer := w.call(t, c)
			var e api.Error
			if err := json.Unmarshal(answer, &e); err != nil || e.Code == "" {
				t.Fatalf("%d with an answer that is no problem: %.300s", status, answer)
			}
			if e.Code != c.want || status != api.Codes[c.want].Status || e.Status != status {
				t.Errorf("%d %s, want %s", status, &e, c.want)
			}
			if e.Field != c.field {
				t.Errorf("field %q of %s, want %q", e.Field, &e, c.field)
			}
			if !strings.Contains(e.Detail, c.says) {
				t.Errorf("it says %q, which is nothing of %q", e.Detail, c.says)
			}
			if got := header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("content type %q", got)
			}
			meaningful(t, &e)
			if after := w.everything(t); after != before {
				t.Errorf("it changed something: %+v became %+v", before, after)
			}
		})
	}
}

// meaningful demands that an error can be understood by who reads it: no Go in it, and what to do.
func meaningful(t *testing.T, e *api.Error) {
	t.Helper()
	for _, foreign := range []string{"json:", "Go struct", "strconv",
		"unexpected error", "validation failed", "reflect", "\x00", "\x1b"} {
		if strings.Contains(e.Detail+e.Remedy, foreign) {
			t.Errorf("it says %q: %s", foreign, e)
		}
	}
	if len(e.Detail) < 8 || len(e.Detail) > 600 || e.Title == "" {
		t.Errorf("it says nothing, or too much: %s", e)
	}
	switch e.Code { // the others speak of a state that only somebody else can change
	case api.CodeInvalid, api.CodeTooLarge, api.CodeTooManyRequests, api.CodeUnauthenticated, api.CodeNotMember, api.CodeSuspended, api.CodeBadSignature:
		if e.Remedy == "" {
			t.Errorf("it does not say what to do: %s", e)
		}
	}
}

// picture is what a call could have changed.
type picture struct {
	events   int64
	milan    *market.Measured
	clusters int
}

func (w *fixture) everything(t *testing.T) (p picture) {
	t.Helper()
	p.events = w.log.events.Load()
	view := w.Exchange.View()
	p.milan, p.clusters = view.Listing("milan").Measured, view.Len()
	return p
}

func (w *fixture) call(t *testing.T, c call) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequest(c.method, w.URL+api.Prefix+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(c.path, "//") { // from the root
		r.URL.Path = c.path[1:]
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	by := *c.by
	by.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := by.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, bytes.TrimSpace(body)
}

// document is the body with a signed document.
func document(signed string) string {
	data, _ := json.Marshal(api.SignedDocument{Document: signed})
	return string(data)
}
