package server_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// flood posts a body to /renew or to /join so often a second, until the test ends. It returns once a second of
// it has passed, by its own count.
func flood(t *testing.T, f *servertest.Federation, path string, each int, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var sent atomic.Int64
	const by = 8
	for range by {
		all.Go(func() {
			nobody := f.StrangerHTTP()
			defer nobody.CloseIdleConnections()
			every := time.NewTicker(by * time.Second / time.Duration(each))
			defer every.Stop()
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+api.Prefix+path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				if answer, err := nobody.Do(r); err == nil {
					if answer.StatusCode == http.StatusOK {
						t.Error("the flood is answered with a certificate")
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					sent.Add(1)
				}
				select {
				case <-every.C:
				case <-ctx.Done():
				}
			}
		})
	}
	for end := time.Now().Add(time.Minute); sent.Load() < int64(each); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d calls a second are sent", sent.Load()/60, each)
		}
	}
}

// renewAll has clusters renew at once, each once a second until it has a certificate or a minute is over.
func renewAll(t *testing.T, f *servertest.Federation, clusters []*transporttest.Party) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range clusters {
		request := join.RenewalRequest{Protocol: api.Protocol, Federation: f.Authority.Federation(),
			Cluster: c.ID, CSR: csr(t), Time: f.Exchange.Now().Go()}
		renewal, err := join.Renew(c.Key, nil, request)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			carrier := f.StrangerHTTP()
			defer carrier.CloseIdleConnections()
			carrier.Timeout = time.Minute
			err := error(nil)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
				if _, err = client.New(f.URL, carrier).Renew(t.Context(), renewal); err == nil {
					return
				}
			}
			t.Errorf("%s does not renew within a minute: %v", c.ID, err)
		})
	}
	all.Wait()
}

// No calls of a stranger at the address of members keep these from renewing. Members behind one address translation,
// or behind a load balancer that hides addresses, are as many callers as they have keys.
func TestStrangersKeepNobodyFromRenewing(t *testing.T) {
	for name, c := range map[string]struct {
		each int
		body func(*testing.T, *servertest.Federation) string
	}{
		"nothing": {200, func(*testing.T, *servertest.Federation) string { return "{}" }},
		"a long body": {200, func(*testing.T, *servertest.Federation) string {
			return `{"request":"` + strings.Repeat("x", 60<<10) + `"}`
		}},
		"a key of its own": {100, signedByNobody},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := servertest.Start(t, servertest.Options{Rate: 500}) // the default
			var members []*transporttest.Party
			for i := range 8 {
				members = append(members, f.Join(fmt.Sprint("milan-", i)).Party)
			}
			flood(t, f, "/renew", c.each, c.body(t, f))
			for _, m := range members {
				if _, err := f.Operator.SetMember(t.Context(), m.ID, "end-certificates"); err != nil {
					t.Fatal(err)
				}
			}
			renewAll(t, f, members)
		})
	}
}

// signedByNobody is a correctly signed renewal for milan-0, by a key to which 16 rotations lead from a key that
// milan-0 never had.
func signedByNobody(t *testing.T, f *servertest.Federation) string {
	t.Helper()
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var rotations []string
	for range api.MaxRotations {
		next, err := clusterkey.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		word, err := trust.Rotate(key, next.Public(), "milan-0", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key, rotations = next, append(rotations, word)
	}
	renewal, err := join.Renew(key, rotations, join.RenewalRequest{Protocol: api.Protocol,
		Federation: f.Authority.Federation(), Cluster: "milan-0", CSR: csr(t), Time: f.Exchange.Now().Go()})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(renewal)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Strangers that begin calls and do not finish them keep no cluster at their address from joining
// or renewing.
func TestUnfinishedCallsKeepNobodyOut(t *testing.T) {
	for _, path := range []string{"/join", "/renew"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			f := servertest.Start(t, servertest.Options{Rate: 10_000}) // more than 32 calls of one stranger may begin at once
			milan, token := f.Join("milan"), f.Token("rome")
			pin, err := f.Authority.Pin()
			if err != nil {
				t.Fatal(err)
			}
			config := tlsid.JoinConfig("127.0.0.1", pin, time.Now)
			for range 40 {
				c, err := tls.Dial("tcp", strings.TrimPrefix(f.URL, "https://"), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				if _, err := fmt.Fprintf(c,
					"POST %s HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", api.Prefix+path); err != nil {
					t.Fatal(err)
				}
				_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Fatal("a call is answered that has not ended")
				} else if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
					t.Fatal(err)
				}
			}
			if err := milan.Renew(); err != nil {
				t.Error(err)
			}
			f.Enter("rome", token)
		})
	}
}

// All members behind one address can renew at once, as they do after the broker was restored.
func TestAllRenewAtOnce(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Rate: 500}) // the default
	members := make([]*transporttest.Party, 200)
	for i := range members { // not by calls, which take longer
		members[i] = transporttest.NewParty(t, fmt.Sprint("milan-", i))
		token := f.Token(members[i].ID)
		join := market.Join{TokenID: token.ID, Hash: join.SecretHash(token.Secret()).String(),
			Cluster: members[i].ID, Key: members[i].Key.Public().String(), TLSKey: "lost"}
		if _, err := f.Exchange.Do(t.Context(), join); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		if _, err := f.Operator.SetMember(t.Context(), m.ID, "end-certificates"); err != nil {
			t.Fatal(err)
		}
	}
	renewAll(t, f, members)
}

// A key renews no more often than a stranger may call, also where the market would answer a repeat again.
func TestRenewalsOfOneKeyAreBounded(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Rate: 500})
	milan := f.Join("milan")
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	renewal := milan.Renewal(key)
	begin, answered := time.Now(), 0
	for range 60 {
		if _, err := f.Stranger().Renew(t.Context(), renewal); err == nil {
			answered++
		} else if api.CodeOf(err) != api.CodeTooManyRequests {
			t.Fatal(err)
		}
	}
	if most := 11 + int(5*time.Since(begin).Seconds()); answered > most || answered < 2 {
		t.Errorf("%d of 60 repeats are answered, want %d at most", answered, most)
	}
}
