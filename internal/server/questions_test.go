package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
)

// callable returns the operations of an agent's API, by method and path.
func callable() map[string]*huma.Operation {
	return operations(server.Local(nil, nil, 1, servertest.Silent()).Description())
}

// rightOf returns who may ask a question, empty for an operation that is none.
func rightOf(o *huma.Operation) server.Right {
	right, _ := o.Extensions["x-right"].(string)
	return server.Right(right)
}

// objects are the reads of objects, which users read by Kubernetes. They are no questions.
var objects = []string{"/offers", "/contracts", "/proposals", "/approvals", "/requests", "/requests/{namespace}/{name}",
	"/peers", "/virtual-node-pools"}

// Each read is a question with a right or a read of objects, and no question changes anything.
func TestEachQuestionHasARight(t *testing.T) {
	for name, o := range callable() {
		right, object := rightOf(o), o.Method == http.MethodGet &&
			slices.Contains(objects, strings.TrimPrefix(o.Path, api.Prefix))
		reads := o.Method == http.MethodGet || o.OperationID == "evaluate" || o.OperationID == "plan-virtual-node-pool" ||
			o.OperationID == "preview-sharing"
		if reads != (right != "" || object) || right != "" && object {
			t.Errorf("%s: right %q, reads %t, of objects %t", name, right, reads, object)
		}
	}
}

// The committed table of questions is that of the code.
func TestTableOfQuestions(t *testing.T) {
	const file = "../../docs/reference/questions.md"
	var rows []string
	for name, o := range callable() {
		if right := rightOf(o); right != "" {
			method, path, _ := strings.Cut(name, " ")
			rows = append(rows, fmt.Sprintf("| `%s %s` | %s | %s |\n", method, path, o.Summary, right))
		}
	}
	slices.Sort(rows)
	text := "# Questions\n\nA user with a Session asks the agent of a cluster these questions. \"namespace\": a Session in a\n" +
		"namespace is enough, and the answer shows what that namespace may see. \"cluster\": only a ClusterSession\n" +
		"is. Everything else is an object of the cluster. Generated from `internal/server`.\n\n" +
		"| question | meaning | right |\n|---|---|---|\n" + strings.Join(rows, "")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if committed, err := os.ReadFile(file); err != nil || !bytes.Equal(committed, []byte(text)) {
		t.Errorf("%s is stale (%v): run go test ./internal/server -run TestTableOfQuestions -update", file, err)
	}
}

// asking serves an agent's questions to one caller.
func asking(t *testing.T, h *house, who server.Caller, err error) *httptest.Server {
	t.Helper()
	questions := server.Local(h, h, 1000, servertest.Silent()).Questions()
	s := httptest.NewServer(questions.For(func(*http.Request) (server.Caller, error) { return who, err }))
	t.Cleanup(s.Close)
	return s
}

func asNamespace(names ...string) server.Caller {
	return server.Caller{Role: server.RoleUsers, Name: "namespace " + names[0], Scope: &server.Scope{Namespaces: names}}
}

// question asks, and returns the code of the error, empty for an answer.
func question(t *testing.T, s *httptest.Server, method, path, body string, into any) api.Code {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		if into != nil {
			err = json.NewDecoder(answer.Body).Decode(into)
		}
		if err != nil {
			t.Error(err)
		}
		return ""
	}
	var e api.Error
	if err := json.NewDecoder(answer.Body).Decode(&e); err != nil || e.Remedy == "" && e.Code != api.CodeUnavailable {
		t.Errorf("%s %s: %s without a remedy: %v, %v", method, path, answer.Status, e, err)
	}
	return e.Code
}

// Each operation answers those who may ask it: nobody, a namespace, the cluster.
func TestWhoMayAsk(t *testing.T) {
	h := &house{}
	team, all := asking(t, h, asNamespace("team"), nil),
		asking(t, h, server.Caller{Role: server.RoleUsers, Name: "cluster", Scope: &server.Scope{Cluster: true}}, nil)
	fill := strings.NewReplacer("{cluster}", "milan", "{name}", "web", "{id}", "r-1", "{namespace}", "team")
	for name, o := range callable() {
		path := fill.Replace(o.Path)
		nobody := asking(t, h, server.Caller{}, api.Errorf(api.CodeUnauthenticated, "no").Fix("ask")) // its own rate
		if code := question(t, nobody, o.Method, path, "{}", nil); code != api.CodeUnauthenticated {
			t.Errorf("%s answers nobody with %q", name, code)
		}
		h.asked = ""
		ofTeam, ofAll := question(t, team, o.Method, path, "{}", nil), question(t, all, o.Method, path, "{}", nil)
		switch rightOf(o) {
		case server.OfNamespace:
			if ofTeam == api.CodeForbidden || ofAll == api.CodeForbidden {
				t.Errorf("%s answers a namespace with %q, the cluster with %q", name, ofTeam, ofAll)
			}
		case server.OfCluster:
			if ofTeam != api.CodeForbidden || ofAll == api.CodeForbidden {
				t.Errorf("%s answers a namespace with %q, the cluster with %q", name, ofTeam, ofAll)
			}
		default:
			if ofTeam != api.CodeNotFound || ofAll != api.CodeNotFound || h.asked != "" {
				t.Errorf("%s answers a namespace with %q, the cluster with %q, and does %q", name, ofTeam, ofAll, h.asked)
			}
		}
	}
}

// A namespace sees the reservations of its own requests, and evaluates for itself alone.
func TestWhatANamespaceSees(t *testing.T) {
	h := &house{}
	of := func(id, object string) transport.Reservation {
		return transport.Reservation{ID: id, Payload: api.Reservation{Object: object}}
	}
	all := []transport.Reservation{of("r-team", "team/a"), of("r-shop", "shop/a"), of("r-lent", ""), of("r-x", "teamx/a")}
	h.reservations = all
	for _, c := range []struct {
		who  server.Caller
		sees []string
	}{
		{asNamespace("team"), []string{"r-team"}},
		{asNamespace("shop", "team"), []string{"r-shop", "r-team"}},
		{asNamespace("other"), nil},
		{server.Caller{Role: server.RoleUsers, Name: "cluster", Scope: &server.Scope{Cluster: true}},
			[]string{"r-team", "r-shop", "r-lent", "r-x"}},
		{server.Caller{Role: "cluster", Name: "local"}, []string{"r-team", "r-shop", "r-lent", "r-x"}},
	} {
		s := asking(t, h, c.who, nil)
		var found struct{ Items []transport.Reservation }
		if code := question(t, s, http.MethodGet, api.Prefix+"/reservations", "", &found); code != "" {
			t.Errorf("%s: %s", c.who, code)
		}
		var ids []string
		for _, r := range found.Items {
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, slices.Sorted(slices.Values(c.sees))) {
			t.Errorf("%s sees %v, want %v", c.who, ids, c.sees)
		}
		for _, r := range all {
			want := api.CodeNotFound
			if slices.Contains(c.sees, r.ID) {
				want = ""
			}
			if code := question(t, s, http.MethodGet, api.Prefix+"/reservations/"+r.ID, "", nil); code != want {
				t.Errorf("%s reads %s: %q, want %q", c.who, r.ID, code, want)
			}
		}
	}
	for body, want := range map[string]api.Code{
		`{"request":{"resources":{"cpu":"1"}}}`:                                                             api.CodeUnavailable, // of the fake broker
		`{"namespace":"team","request":{"resources":{"cpu":"1"}}}`:                                          api.CodeUnavailable,
		`{"namespace":"shop","request":{"resources":{"cpu":"1"}}}`:                                          api.CodeNotFound,
		`{"namespace":"team","request":{"resources":{"cpu":"1"}},"offload":{"namespaces":["team","shop"]}}`: api.CodeNotFound,
	} {
		h.asked = ""
		s := asking(t, h, asNamespace("team"), nil)
		code := question(t, s, http.MethodPost, api.Prefix+"/evaluations", body, nil)
		if code != want || want == api.CodeNotFound && h.asked != "" {
			t.Errorf("%s: %q, want %q; asked %q", body, code, want, h.asked)
		}
	}
}

// slow is a house whose evaluations last until they are let go.
type slow struct {
	house
	begun, end chan struct{}
}

func (s *slow) Preview(context.Context, transport.Broker, api.DryRun) (api.Evaluation, error) {
	s.begun <- struct{}{}
	<-s.end
	return api.Evaluation{}, nil
}

// All sessions together have two large questions at a time, and a namespace one.
func TestLargeQuestionsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{begun: make(chan struct{}, 9), end: make(chan struct{})}
		questions := server.Local(s, s, 1000, servertest.Silent()).Questions()
		answers := make(chan *httptest.ResponseRecorder, 9)
		evaluate := func(namespace string) {
			who := asNamespace(namespace)
			body := strings.NewReader(`{"namespace":"` + namespace + `","request":{"resources":{"cpu":"1"}}}`)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.Prefix+"/evaluations", body)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			questions.For(func(*http.Request) (server.Caller, error) { return who, nil }).ServeHTTP(w, r)
			answers <- w
		}
		go evaluate("team")
		<-s.begun
		for _, waits := range []string{"team", "other", "third"} {
			go evaluate(waits)
		}
		<-s.begun // of one of the two other namespaces
		says := ""
		for range 2 {
			answer := <-answers
			if answer.Code != http.StatusTooManyRequests {
				t.Errorf("beside two large questions another is answered %d", answer.Code)
			}
			says += answer.Body.String()
		}
		for _, want := range []string{"the users of namespace team have a large question that is not answered yet: they have one " +
			"at a time, such as an evaluation or a whole list", "the agent answers 2 large questions already", `"remedy":"repeat the command"`} {
			if !strings.Contains(says, want) {
				t.Errorf("no user is told %q: %s", want, says)
			}
		}
		close(s.end)
		for range 2 {
			if answer := <-answers; answer.Code != http.StatusOK {
				t.Errorf("a large question is answered %d", answer.Code)
			}
		}
	})
}

// unread is an answer that its reader does not read until it is let go.
type unread struct {
	*httptest.ResponseRecorder
	writes, read chan struct{}
}

func (u *unread) Write(data []byte) (int, error) {
	select {
	case u.writes <- struct{}{}:
	default:
	}
	<-u.read
	return u.ResponseRecorder.Write(data)
}

// WriteString hides that of the recorder.
func (u *unread) WriteString(text string) (int, error) { return u.Write([]byte(text)) }

// An answer that takes much memory counts until it is read.
func TestAnUnreadAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{}
		questions := server.Local(h, h, 1000, servertest.Silent()).Questions()
		ask := func(namespace string, w http.ResponseWriter) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, api.Prefix+"/reservations", nil)
			questions.For(func(*http.Request) (server.Caller, error) { return asNamespace(namespace), nil }).ServeHTTP(w, r)
		}
		read := make(chan struct{})
		for _, namespace := range []string{"team", "other"} {
			w := &unread{httptest.NewRecorder(), make(chan struct{}, 1), read}
			go ask(namespace, w)
			<-w.writes
		}
		third := httptest.NewRecorder()
		if ask("third", third); third.Code != http.StatusTooManyRequests {
			t.Errorf("beside two answers that nobody reads another question is answered %d", third.Code)
		}
		close(read)
		synctest.Wait()
		third = httptest.NewRecorder()
		if ask("third", third); third.Code != http.StatusOK {
			t.Errorf("afterwards it is answered %d", third.Code)
		}
	})
}

// volumes is a house with many volumes of another namespace before those of team.
type volumes struct{ house }

func (v *volumes) Impact(context.Context, string, string) (api.Impact, error) {
	all := api.Volumes{Digest: "d"}
	for i := range 90 {
		all.Claims = append(all.Claims, fmt.Sprintf("shop/%02d", i))
	}
	for i := range 30 {
		all.Claims = append(all.Claims, fmt.Sprintf("team/%02d", i))
	}
	all.Count = len(all.Claims)
	return api.Impact{Volumes: &all, Pods: &api.Pods{Count: all.Count, Names: all.Claims}}, nil
}

// A namespace sees the names of its own volumes and pods, wherever they stand in the list.
func TestImpactNamesOwnVolumesAndPods(t *testing.T) {
	var v volumes
	questions := server.Local(&v, &v, 1000, servertest.Silent()).Questions()
	s := httptest.NewServer(questions.For(func(*http.Request) (server.Caller, error) { return asNamespace("team"), nil }))
	defer s.Close()
	var impact api.Impact
	code := question(t, s, http.MethodGet, api.Prefix+"/requests/team/r/impact", "", &impact)
	if code != "" || impact.Volumes == nil || impact.Volumes.Count != 120 || len(impact.Volumes.Claims) != 20 ||
		impact.Volumes.Claims[0] != "team/00" {
		t.Errorf("it shows %+v, %s", impact.Volumes, code)
	}
	if p := impact.Pods; p == nil || p.Count != 120 || len(p.Names) != 20 || p.Names[0] != "team/00" || p.Names[19] != "team/19" {
		t.Errorf("it shows %+v", p)
	}
}
