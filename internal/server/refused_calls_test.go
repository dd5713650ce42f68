package server_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// Calls that are refused for who makes them count, too: one ends its connection, and an address may
// make a few. Who shares it with them can still join, and call.
func TestRefusedCallsCount(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Rate: 200}) // strangers have 2, with a burst of 4
	token := f.Token("oslo")
	milan, rome := f.Join("milan"), f.Join("rome")
	if _, err := f.Operator.SetMember(t.Context(), "rome", "revoke"); err != nil {
		t.Fatal(err)
	}
	for who, hc := range map[string]*http.Client{"a stranger": f.StrangerHTTP(), "a revoked member": rome.HTTP} {
		c := f.Dial(hc)
		ask(t, c, strings.Repeat("GET "+prefix+"/clusters HTTP/1.1\r\nHost: broker\r\n\r\n", 20))
		r := bufio.NewReader(c)
		answers := 0
		for _ = c.SetReadDeadline(time.Now().Add(time.Minute)); ; answers++ {
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				break
			}
			_, _ = io.Copy(io.Discard, answer.Body)
		}
		if answers != 1 {
			t.Errorf("%s gets %d answers on a connection", who, answers)
		}
	}
	for begin, told := time.Now(), 0; ; told++ {
		answer, err := f.StrangerHTTP().Get(f.URL + prefix + "/clusters")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusTooManyRequests {
			break
		}
		if most := 5 + int(2*time.Since(begin).Seconds()); told > most {
			t.Fatalf("%d answers within %s say why an address is refused", told, time.Since(begin))
		}
	}
	if _, err := milan.Clusters(t.Context()); err != nil {
		t.Errorf("a member at the same address: %v", err)
	}
	f.Enter("oslo", token)
}
