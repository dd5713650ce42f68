package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a client of a server that answers everything so.
func answers(t *testing.T, status int, body string) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return client.New(s.URL, nil)
}

// Each error of a server becomes an *api.Error with a known code: agents decide by it whether to try again.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   api.Code
	}{
		"ours":                       {409, `{"code":"Conflict","detail":"it has moved on"}`, api.CodeConflict},
		"ours, with another status":  {499, `{"code":"NotFound"}`, api.CodeNotFound},
		"a code that nobody knows":   {400, `{"code":"no code\u001b","detail":"x"}`, api.CodeInternal},
		"a proxy's, without backend": {502, `<html>Bad Gateway</html>`, api.CodeUnavailable},
		"a proxy's, of many calls":   {429, `slow down`, api.CodeTooManyRequests},
		"somebody else's":            {404, `not here`, api.CodeNotFound},
		"nothing":                    {500, ``, api.CodeInternal},
		"half an answer":             {200, `{"items":[{"id":"a"`, api.CodeUnavailable},
		"no JSON":                    {200, `<html>`, api.CodeUnavailable},
		"pages without end":          {200, `{"items":[],"continue":"a"}`, api.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answers(t, c.status, c.body).Reservations(context.Background())
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != c.want || e.Status != api.Codes[c.want].Status || e.Title == "" {
				t.Errorf("%#v, want %s", err, c.want)
			}
		})
	}
	s := httptest.NewServer(nil)
	s.Close()
	if _, err := client.New(s.URL, nil).Reservations(context.Background()); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("of nobody: %v", err)
	}
}

// However long the texts of an error are, what reaches logs, conditions and Events is short. No server chooses a command
// that runs here.
func TestTextsOfErrorsAreCut(t *testing.T) {
	long := strings.Repeat("ü", 100_000)
	body := fmt.Sprintf(`{"code":"Conflict","detail":%q,"field":%[1]q,"remedy":%[1]q,"argv":["rm","-r"]}`, long)
	_, err := answers(t, 409, body).Reservations(t.Context())
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeConflict || e.Argv != nil {
		t.Fatalf("it is %.200v, with the command %q", err, e.Argv)
	}
	for _, text := range []string{e.Detail, e.Field, e.Remedy} {
		if len(text) > 4<<10 || !strings.HasSuffix(text, "ü...") {
			t.Errorf("a text of %d bytes is left", len(text))
		}
	}
}

// A watch that tells nonsense ends with an error, and none of it reaches its reader.
func TestWatchOfNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want api.Code
	}{
		"no JSON":                {"<html>\n", api.CodeUnavailable},
		"an event about nothing": {`{"type":"RESERVATION"}` + "\n", api.CodeUnavailable},
		"the end":                {"", api.CodeUnavailable},
		"its own end":            {`{"type":"END","error":{"code":"Suspended","detail":"x"}}` + "\n", api.CodeSuspended},
		"an end of nonsense":     {`{"type":"END","error":{"code":"Because"}}` + "\n", api.CodeInternal},
	} {
		err := answers(t, 200, c.line).Watch(context.Background(), "", func(e api.WatchEvent) error {
			t.Errorf("%s: its reader hears %+v", name, e)
			return nil
		})
		if api.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// No call follows a redirect: with its body it would go wherever the server says, also by plain HTTP.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s goes where the server said", r.Method, r.URL.Path)
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+"/latest/meta-data", status)
			}))
			defer s.Close()
			ctx, c := context.Background(), client.New(s.URL, s.Client())
			_, get := c.Reservations(ctx)
			_, post := c.Reserve(ctx, "key", api.Request{})
			_, deleted := c.SetMember(ctx, "rome", "remove")
			for name, err := range map[string]error{
				"GET": get, "POST": post, "DELETE": deleted, "PUT": c.PutCard(ctx, "rome", "card"),
				"a watch": c.Watch(ctx, "", func(api.WatchEvent) error { return nil }),
			} {
				e, ok := errors.AsType[*api.Error](err)
				if !ok || e.Code != api.CodeUnavailable || !strings.Contains(e.Detail, other.URL) || e.Remedy == "" {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// What is read of an answer is bounded, by bytes and by what they become.
func TestAnswersAreBounded(t *testing.T) {
	ctx := context.Background()
	item := `{"id":"` + strings.Repeat("a", 1000) + `"},`
	for name, page := range map[string]string{
		"long":       `{"items":[` + strings.Repeat(item, 2000) + `{}]}`,
		"many items": `{"items":[` + strings.Repeat("{},", 10_000) + `{}]}`,
	} {
		if _, err := answers(t, 200, page).WithLists(1 << 20).Reservations(ctx); api.CodeOf(err) != api.CodeTooLarge {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := answers(t, 200, page).Reservations(ctx); err != nil || len(all) < 2000 {
			t.Errorf("%s, for a client that has room: %d items, %v", name, len(all), err)
		}
	}
	pages := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pages++
		fmt.Fprintf(w, `{"items":[%s{}],"continue":"%08d"}`, strings.Repeat(item, 100), pages)
	}))
	defer s.Close()
	if _, err := client.New(s.URL, nil).WithLists(1 << 20).Reservations(ctx); api.CodeOf(err) != api.CodeTooLarge ||
		pages > 12 {
		t.Errorf("after %d pages: %v", pages, err)
	}
	if _, err := answers(t, 200, `{"id":"`+strings.Repeat("a", 17<<20)+`"}`).Reservation(ctx, "a"); api.CodeOf(err) != api.CodeTooLarge {
		t.Errorf("one reservation: %v", err)
	}
}
