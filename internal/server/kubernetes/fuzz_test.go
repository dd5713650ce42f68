package kubernetes

import (
	"context"
	"net/http"
	"path"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Any object of a member becomes a call of the API, here, and never one of the excluded calls.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{api.Prefix + "/clusters?limit=1",
		api.Prefix + "/renew", api.Prefix + "/rene%77", api.Prefix + "//renew", api.Prefix + "/../join",
		"//evil.example" + api.Prefix + "/clusters", "https://evil.example/", api.Prefix +
			"/x#y", api.Prefix + "/\r\nHost: evil", "*"} {
		f.Add("GET", path, "key", "{}")
	}
	m := &memberSession{cluster: "rome", namespace: "bourse-member-rome"}
	f.Fuzz(func(t *testing.T, method, at, key, body string) {
		r, err := m.request(context.Background(), kubernetes.Call{Method: method, Path: at, Key: key, Body: body})
		if err != nil {
			if api.CodeOf(err) == api.CodeInternal {
				t.Errorf("%v", err)
			}
			return
		}
		if r.URL.Host != "objects" || !strings.HasPrefix(r.URL.Path, api.Prefix+"/") {
			t.Errorf("it goes to %s", r.URL)
		}
		for _, kept := range apart {
			if path.Clean(r.URL.Path) == r.URL.Path && r.URL.Path == kept { // what is not clean the API refuses
				t.Errorf("it goes to %s", r.URL)
			}
		}
	})
}

// However an answer is written and read, the pieces are it, each a text of its own.
func FuzzStream(f *testing.F) {
	f.Add("{\"a\":\"ö€😀\"}", uint16(3), uint16(40_000))
	f.Add("ö€😀", uint16(0), uint16(3))
	f.Fuzz(func(t *testing.T, text string, step, times uint16) {
		if !utf8.ValidString(text) || text == "" || len(text) > 1000 {
			return
		}
		whole := strings.Repeat(text, min(int(times), 4*held/len(text)))
		s := newStream(func() {})
		go func() {
			for rest := whole; rest != ""; {
				n := min(len(rest), int(step)+1)
				if _, err := s.Write([]byte(rest[:n])); err != nil {
					t.Error(err)
					return
				}
				rest = rest[n:]
			}
			s.end()
		}()
		var got strings.Builder
		for {
			a, ok := s.currentPiece()
			if !ok {
				runtime.Gosched()
				continue
			}
			if a.Status != http.StatusOK || a.From > int64(got.Len()) ||
				len(a.Body) > kubernetes.MaxPiece || !utf8.ValidString(a.Body) {
				t.Fatalf("after %d of %d bytes: %d bytes from %d, done: %t", got.Len(), len(whole), len(a.Body), a.From, a.Done)
			}
			if already := got.Len() - int(a.From); already < len(a.Body) {
				got.WriteString(a.Body[already:])
			}
			if a.Done {
				break
			}
			s.read(int64(got.Len()) - int64(step)%5) // what is acknowledged ends anywhere
		}
		if got.String() != whole {
			t.Errorf("%d bytes became %d", len(whole), got.Len())
		}
	})
}
