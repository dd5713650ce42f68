package server_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// No calls of a stranger at the address of clusters keep these from joining, all at once. One token cannot be used
// often, and does not hinder the others.
func TestStrangersKeepNobodyFromJoining(t *testing.T) {
	w := &fixture{Federation: servertest.Start(t, servertest.Options{Rate: 500})} // the default
	flood(t, w.Federation, "/join", 200, submission(t, "milan", w.guess(t)))
	var all sync.WaitGroup
	refused := atomic.Int64{}
	for i := range 30 {
		name := fmt.Sprint("oslo-", i)
		body := submission(t, name, w.Token(name))
		all.Go(func() {
			if status := w.post(t, "/join", body); status != http.StatusOK {
				refused.Add(1)
			}
		})
	}
	if all.Wait(); refused.Load() > 0 {
		t.Errorf("of 30 clusters %d are refused", refused.Load())
	}
	again := submission(t, "bari", w.Token(""))
	for begin, answered := time.Now(), 0; w.post(t, "/join", again) == http.StatusOK; answered++ {
		if most := 11 + int(5*time.Since(begin).Seconds()); answered > most {
			t.Fatalf("one token is used %d times in %s", answered, time.Since(begin))
		}
	}
	if status := w.post(t, "/join", submission(t, "rome", w.Token(""))); status != http.StatusOK {
		t.Errorf("with another token: %d", status)
	}
}

// guess is a token that the broker did not make.
func (w *fixture) guess(t *testing.T) join.Token {
	t.Helper()
	pin, err := w.Authority.Pin()
	if err != nil {
		t.Fatal(err)
	}
	token, err := join.NewToken(rand.Reader, w.URL, pin)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// submission is what a cluster with a new key sends to join with a token.
func submission(t *testing.T, cluster string, token join.Token) string {
	t.Helper()
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := join.Submit(token, key,
		join.Request{Protocol: api.Protocol, Cluster: cluster, CSR: csr(t), Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// post sends a body as a stranger, and returns the status of the answer; 0: there is none.
func (w *fixture) post(t *testing.T, path, body string) int {
	t.Helper()
	nobody := w.StrangerHTTP()
	defer nobody.CloseIdleConnections()
	answer, err := nobody.Post(w.URL+api.Prefix+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
