package resourceagent_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// attempt is a call that must be refused, and change nothing.
type attempt struct {
	name         string
	by           *http.Client
	method, path string
	body         string
	want         int
}

func (w *testFederation) refused(all ...attempt) {
	w.t.Helper()
	for _, a := range all {
		before := w.records()
		status, body := w.call(a.by, a.method, a.path, a.body)
		var said api.Error
		if err := json.Unmarshal([]byte(body), &said); status != a.want ||
			err != nil || said.Code == "" || said.Detail == "" {
			w.t.Errorf("%s: %d %.300s, want %d", a.name, status, body, a.want)
		}
		if after := w.records(); after != before {
			w.t.Errorf("%s: what was\n%s\nis\n%s", a.name, before, after)
		}
	}
}

// records are all members and reservations. That a lease was noticed, in its own time, is none of a
// call's doing.
func (w *testFederation) records() (all string) {
	w.t.Helper()
	err := w.Exchange.Read(context.Background(), func(s *market.State) {
		data, err := json.Marshal([]any{s.Members(), s.All()})
		if all = string(data); err != nil {
			w.t.Error(err)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// allRoutes are those that need a member.
var allRoutes = []struct{ method, path, body string }{
	{"GET", "/api/v1/advertisements/milan", ""}, {"POST", "/api/v1/evaluations", `{"requestedResources":{"cpu":"1"}}`},
	{"POST", "/api/v1/reservations", `{"requestedResources":{"cpu":"1"}}`}, {"GET", "/api/v1/reservations", ""}, {"GET", "/api/v1/reservations/r-1", ""},
	{"GET", "/api/v1/instructions", ""}, {"GET", "/api/clusters",
		""}, {"GET", "/api/toggle", ""}, {"GET", "/api/toggle?id=milan&enable=true", ""},
	{"POST", "/api/toggle?id=milan&enable=true", ""}, {"DELETE", "/api/toggle", ""},
}

// Who has no certificate, one that waits, one that was revoked, and one whose subject is that of a
// cluster with a key, get nothing.
func TestHostileCallers(t *testing.T) {
	w := newTestFederation(t)
	milan := w.member("milan", "8", api.TrustLegacy)
	w.approved("cluster-1", "cluster-9")
	if status, _ := w.call(w.agent("cluster-8"), "POST", "/api/v1/advertisements",
		advert("cluster-8", "1", "1")); status != http.StatusForbidden {
		t.Fatal(status)
	}
	must(w.Operator.SetMember(context.Background(), "cluster-9", "revoke"))(t)
	nobody, posing := w.agent("nobody"), w.showing(w.theirs.Issue(t, "milan"))
	for _, r := range allRoutes {
		at := r.method + " " + r.path
		w.refused(attempt{at + " by nobody", nobody, r.method, r.path, r.body, http.StatusUnauthorized},
			attempt{at + " by one that waits", w.agent("cluster-8"), r.method, r.path, r.body, http.StatusForbidden},
			attempt{at + " by one that was revoked", w.agent("cluster-9"), r.method, r.path, r.body, http.StatusForbidden},
			attempt{at + " by the subject of a cluster with a key", posing, r.method, r.path, r.body, http.StatusForbidden})
		if !strings.HasPrefix(r.path, "/api/clusters") {
			w.refused(attempt{at + " by an operator", w.OperatorHTTP, r.method, r.path, r.body, http.StatusForbidden})
		}
	}
	w.refused(
		attempt{"advertise as nobody", nobody, "POST", "/api/v1/advertisements",
			advert("cluster-1", "8", "8"), http.StatusUnauthorized},
		attempt{"advertise as another", w.agent("cluster-1"), "POST",
			"/api/v1/advertisements", advert("cluster-2", "8", "8"), http.StatusForbidden},
		attempt{"advertise as a cluster with a key, by its subject",
			posing, "POST", "/api/v1/advertisements", advert("milan", "800", "800"), http.StatusForbidden},
		attempt{"advertise as a cluster with a key, by its own certificate",
			milan.HTTP, "POST", "/api/v1/advertisements", advert("milan", "800", "800"), http.StatusForbidden},
		attempt{"advertise as one that was revoked", w.agent("cluster-9"),
			"POST", "/api/v1/advertisements", advert("cluster-9", "8", "8"), http.StatusForbidden},
		attempt{"the list of members", w.agent("cluster-1"), "GET", api.Prefix + "/members", "", http.StatusForbidden},
		attempt{"the new interface", w.agent("cluster-1"), "POST", api.Prefix + "/reservations", `{"request":{"resources":{"cpu":"1"}}}`, http.StatusForbidden},
		attempt{"a renewal", w.agent("cluster-1"), "POST", api.Prefix + "/renew", `{"csr":"AAAA"}`, http.StatusUnprocessableEntity},
		attempt{"a kubeconfig", w.agent("cluster-1"), "POST", "/api/v1/reservations/r-1/kubeconfig", `{"kubeconfig":"apiVersion: v1"}`, http.StatusNotFound},
	)
	if l := w.Exchange.View().Listing("milan"); l.Member.Legacy || l.Card().Legacy {
		t.Errorf("milan became a legacy member: %+v", l.Member)
	}
}

// What a certificate says beside its subject gives nothing; nor does a subject that is no cluster ID.
func TestHostileCertificates(t *testing.T) {
	w := newTestFederation(t)
	w.member("milan", "8", "")
	federation := w.Authority.Federation()
	server := func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) }
	for name, by := range map[string]*http.Client{
		"of the broker, for both":     w.showing(w.theirs.Issue(t, "liqo-resource-broker", server)),
		"with an operator, no ID":     w.showing(w.theirs.Issue(t, `{"$ne":""}`)),
		"with a capital":              w.showing(w.theirs.Issue(t, "Cluster-1")),
		"without a name":              w.showing(w.theirs.Issue(t, "")),
		"with more than a label":      w.showing(w.theirs.Issue(t, "cluster-1.example.org")),
		"of ours, which names nobody": w.showing(w.ours.Issue(t, "")),
	} {
		w.refused(attempt{name, by, "GET", "/api/v1/instructions", "", http.StatusUnauthorized})
	}
	// Their CA may not give our names: neither an operator's nor a member's.
	for _, uri := range []string{"bourse://" + federation + "/operator/admin",
		"bourse://" + federation + "/cluster/milan"} {
		by := w.showing(w.theirs.Issue(t, "cluster-7", named(uri)))
		w.refused(attempt{"members by " + uri, by, "GET", api.Prefix + "/members", "", http.StatusForbidden},
			attempt{"clusters by " + uri, by, "GET", api.Prefix + "/clusters", "", http.StatusForbidden},
			attempt{"instructions by " + uri, by, "GET", "/api/v1/instructions", "", http.StatusForbidden})
	}
	stranger := w.showing(servertest.NewSubjectCA(t).Issue(t, "cluster-1"))
	if answer, err := stranger.Get(w.URL + "/healthz"); err == nil {
		_ = answer.Body.Close()
		t.Error("a certificate of a CA that nobody named was taken")
	}
	if status, _ := w.call(w.showing(w.ours.Issue(t, "cluster-1")),
		"POST", "/api/v1/advertisements", advert("cluster-1", "1", "1")); status != http.StatusForbidden {
		t.Errorf("a subject of our own CA: %d", status)
	} else if l := w.Exchange.View().Listing("cluster-1"); l == nil ||
		l.Member.State != api.MemberPending || !l.Member.Legacy {
		t.Errorf("%+v", l)
	}
}

// Bodies that are not what is documented, quantities that are none, and IDs that are queries.
func TestHostileBodies(t *testing.T) {
	w := newTestFederation(t)
	w.approved("cluster-1", "cluster-2")
	by := w.agent("cluster-1")
	body := func(resources string) string {
		return `{"clusterID":"cluster-1","clusterName":"c","resources":` + resources + `,"timestamp":"2026-01-30T10:00:00Z"}`
	}
	with := func(cpu string) string {
		return body(`{"capacity":{"cpu":` + cpu + `},"allocatable":{"cpu":` + cpu + `},"allocated":{"cpu":"0"},"available":{"cpu":"1"}}`)
	}
	post := func(name, path, body string, want int) {
		w.refused(attempt{name + " to " + path, by, "POST", path, body, want})
	}
	for name, b := range map[string]string{
		"nothing": "", "half": `{"clusterID":`, "an array": `[]`, "an array of them": `[` +
			with(`"1"`) + `]`, "a text": `"cluster-1"`, "a number": `7`,
		"two": with(`"1"`) + with(`"1"`), "an operator as ID": `{"clusterID":{"$ne":""}}`, "a regular expression as ID": `{"clusterID":{"$regex":".*"}}`,
		"resources that are an array": body(`[]`), "a number as quantity": with(`8`), "gigabytes": with(`"8GB"`), "less than nothing": with(`"-1"`),
		"an exponent": with(`"1e999999999"`), "a small one": with(`"1E-999999999"`), "a long one": with(`"` +
			strings.Repeat("9", 20_000) +
			`"`), "more than any cluster has": with(`"9999999999999999999999"`), "not a number": with(`"NaN"`), "an object as quantity": with(`{"$gt":0}`),
		"a timestamp that is none": `{"clusterID":"cluster-1","timestamp":"yesterday"}`, "a name for a terminal": `{"clusterID":"cluster-1","clusterName":"\u001b[2J"}`,
		"deep": `{"resources":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
	} {
		post(name, "/api/v1/advertisements", b, http.StatusBadRequest)
	}
	post("null", "/api/v1/advertisements", "null", http.StatusForbidden)
	post("a name too long", "/api/v1/advertisements", `{"clusterID":"cluster-1","clusterName":"`+strings.Repeat("x", 300)+`"}`, http.StatusBadRequest)
	for _, path := range []string{"/api/v1/advertisements", "/api/v1/evaluations", "/api/v1/reservations"} {
		post("too much", path, `{"x":"`+strings.Repeat("x", 70_000)+`"}`, http.StatusRequestEntityTooLarge)
	}
	for _, path := range []string{"/api/v1/evaluations", "/api/v1/reservations"} {
		for name, b := range map[string]string{
			"nothing": "", "an array": `[]`, "no resources": `{}`, "null": "null", "nothing of it": `{"requestedResources":{"cpu":"0"}}`, "less": `{"requestedResources":{"cpu":"-2"}}`,
			"an exponent": `{"requestedResources":{"cpu":"1e99999999"}}`, "a GPU that is none": `{"requestedResources":{"cpu":"1","gpu":"two"}}`,
			"for ever": `{"requestedResources":{"cpu":"1"},"duration":"forever"}`, "back in time": `{"requestedResources":{"cpu":"1"},"duration":"-1h"}`,
			"too long": `{"requestedResources":{"cpu":"1"},"duration":"99999h"}`, "an operator as target": `{"requestedResources":{"cpu":"1"},"targetClusterID":{"$gt":""}}`,
			"a duration in numbers": `{"requestedResources":{"cpu":"1"},"duration":3600}`,
		} {
			post(name, path, b, http.StatusBadRequest)
		}
	}
	post("a target that nobody knows", "/api/v1/reservations", `{"requestedResources":{"cpu":"1"},"targetClusterID":"atlantis"}`, http.StatusNotFound)
	post("a target that is no name", "/api/v1/reservations", `{"requestedResources":{"cpu":"1"},"targetClusterID":"../etc"}`, http.StatusNotFound)
	get := func(name, path string, want int) { w.refused(attempt{name, by, "GET", path, "", want}) }
	get("another's reservations", "/api/v1/reservations?clusterID=cluster-2&role=provider", http.StatusForbidden)
	get("everybody's reservations", "/api/v1/reservations?clusterID="+url.QueryEscape(`{"$ne":""}`), http.StatusForbidden)
	get("a role that is none", "/api/v1/reservations?role="+url.QueryEscape("provider' OR 1=1"), http.StatusBadRequest)
	get("an ID that is a query", "/api/v1/reservations/"+url.PathEscape(`{"$ne":""}`), http.StatusNotFound)
	get("an advertisement that is a query", "/api/v1/advertisements/"+url.PathEscape(`{"$ne":""}`), http.StatusNotFound)
	get("one of a cluster that nobody knows", "/api/v1/advertisements/atlantis", http.StatusNotFound)
	for _, id := range []string{"", "$ne", `{"$ne":""}`, "Cluster-2", strings.Repeat("x", 64), "a,b", "*"} {
		get("toggle "+id, "/api/toggle?enable=true&id="+url.QueryEscape(id), http.StatusBadRequest)
	}
	get("toggle by an operator", "/api/toggle?id[$ne]=&enable=true", http.StatusBadRequest)
	get("enable itself", "/api/toggle?id=cluster-1&enable=true", http.StatusNotFound)
	get("enable nobody", "/api/toggle?id=atlantis&enable=true", http.StatusNotFound)
}

// A reservation is its parties' alone, and only its provider accepts it by fetching.
func TestHostileNeighbours(t *testing.T) {
	w := newTestFederation(t, impatient)
	w.approved("cluster-1", "cluster-2", "cluster-3")
	var made struct{ ID string }
	status, body := w.call(w.agent("cluster-1"), "POST", "/api/v1/reservations", `{"requestedResources":{"cpu":"2"},"targetClusterID":"cluster-2"}`)
	if err := json.Unmarshal([]byte(body), &made); status != http.StatusAccepted || err != nil {
		t.Fatalf("%d %s", status, body)
	}
	w.refused(attempt{"another's", w.agent("cluster-3"), "GET",
		"/api/v1/reservations/" + made.ID, "", http.StatusNotFound})
	for _, path := range []string{"/api/v1/instructions", "/api/v1/reservations?role=provider", "/api/v1/reservations"} {
		for _, by := range []string{"cluster-3", "cluster-1"} {
			if _, body := w.call(w.agent(by), "GET", path, ""); strings.Contains(body, `"Reserved"`) ||
				by == "cluster-3" && strings.Contains(body, made.ID) {
				t.Errorf("%s, by %s: %s", path, by, body)
			}
		}
	}
}
