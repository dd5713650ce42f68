package distributedcatalog

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// token is what a call shows: a bearer token or, where a subscriber's program cannot send one, the
// prototype's cookie.
func token(r *http.Request) string {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	if r.URL.Path != "/subscribe" { // a cookie is sent by any page that a browser shows
		return ""
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		return cookie.Value
	}
	return ""
}

const cookieName = "jwt-token"

// authenticate gives a member a token. A body is the prototype's description of a provider, of
// which only the cluster's ID is looked at: without one, a customer authenticates.
func (b *broker) authenticate(w http.ResponseWriter, r *http.Request, m *member) (any, error) {
	if !m.proven {
		return nil, api.Errorf(api.CodeUnauthenticated,
			"a token is given to who shows the certificate of a member, not for another token").
			Fix("show the cluster's certificate")
	}
	var body map[string]json.RawMessage
	if r.ContentLength != 0 {
		if err := readBody(w, r, &body); err != nil {
			return nil, err
		}
		for _, key := range []string{"clusterID", "clusterName", "token", "endpoint"} {
			var text string
			if raw, given := body[key]; !given || json.Unmarshal(raw, &text) != nil || string(raw) == "null" {
				return nil, api.Invalid(key, "Malformed input: it is missing, or no text").
					Fix("send clusterID, clusterName, token, endpoint and clusterContractEndpoint, or no body")
			}
			if key == "clusterID" && text != m.cluster {
				return nil, api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q", m.cluster, text).At(key).
					Fix("speak for %s", m.cluster)
			}
		}
	}
	if err := m.admitted(r.Context()); err != nil {
		return nil, err
	}
	text := b.sessions.open(m.cluster, m.state)
	b.Log.Info("a client of the Distributed Catalog authenticated", "cluster", m.cluster, "from", r.RemoteAddr)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: text, Path: "/subscribe",
		MaxAge: int(sessionEnds / time.Second), Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return map[string]string{"status": "OK", "brokerID": brokerID(b.URL), "token": text}, nil
}
